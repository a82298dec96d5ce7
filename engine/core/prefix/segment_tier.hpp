#pragma once
// A memory of segments behind the prefix tree: a folder of one engine (DiskTier), or a store that
// several engines share (SharedTier). The owner makes requests and takes their answers; a thread
// carries them out, so that no step of the engine waits for a disk or a network. The memory holds
// at most so many bytes. The beginning of a path is never removed for its own end, which is useless
// without it: if the limit does not allow for a whole path, `reserve` refuses the rest.
// Thread safety: one owner thread.
#include <cstdint>
#include <set>
#include <span>
#include <vector>

#include "engine/core/prefix/segment_index.hpp"

namespace millrace::engine {

class SegmentTier {
 public:
  virtual ~SegmentTier() = default;
  SegmentTier(const SegmentTier&) = delete;
  SegmentTier& operator=(const SegmentTier&) = delete;

  SegmentIndex& index() { return index_; }
  std::uint64_t most_bytes() const { return most_bytes_; }

  // As SegmentIndex::find, for a reader that would load what is found now.
  virtual std::uint32_t find(std::span<const TokenId> tokens, std::uint32_t known) {
    return index_.find(tokens, known);
  }

  // Saving pages [first_page, ...) of a path, or the state after a path, takes two calls. reserve()
  // makes room and enters the segment in the index, so that no other save of these pages begins.
  // save() then gives the packed bytes; abandon() gives up if they could not be read.
  struct Place {
    SegmentIndex::Number number = 0;  // 0: no room
    bool later = false;               // try again: there may be room when current writes are done
  };
  Place reserve(Tokens path, std::uint32_t first_page);
  Place reserve_state(Tokens path);
  // Whether the limit allows for a path, of which the first pages are saved, and the state after
  // it. Pages without a state are of no use to a model with states.
  bool holds(std::span<const TokenId> path, std::uint32_t saved) const;
  virtual void save(SegmentIndex::Number number, std::vector<char> bytes) = 0;
  virtual void abandon(SegmentIndex::Number number) = 0;
  // Whether more may be saved now: false while much waits to be written, and after a failed write.
  virtual bool accepts() const = 0;
  virtual std::uint64_t unwritten_bytes() const = 0;  // that were saved and not written yet
  virtual bool has_failed() const = 0;                // waiting until more is accepted is of no use

  // Requests a read; take() returns the answer. A segment that was removed since it was found
  // cannot be read.
  virtual void load(std::uint64_t ticket, const SegmentIndex::Piece& piece) = 0;
  struct Loaded {
    std::uint64_t ticket = 0;
    SegmentIndex::Piece piece;
    std::vector<char> bytes;  // empty: the segment could not be read
  };
  // Answers come in the order of the requests.
  virtual std::vector<Loaded> take() = 0;
  // Waits until take() has something or no request is open, but at most so long, so that a disk
  // that hangs does not stop the engine.
  static constexpr std::uint32_t most_wait_ms = 100;
  virtual void wait() = 0;

 protected:
  SegmentTier(const PageKind& kind, std::uint64_t most_bytes)
      : kind_(kind), most_bytes_(most_bytes), index_(kind) {}
  // Errors: invalid_value if the limit is too small for one page and the state after it.
  static Status check_limit(const PageKind& kind, std::uint64_t most_bytes);
  const PageKind& kind() const { return kind_; }

 private:
  // Makes room for so many bytes without removing the segments `kept`. False: there will be room
  // later.
  virtual bool make_room(std::uint64_t bytes, const std::set<SegmentIndex::Number>& kept) = 0;
  // Enters a segment in the index, to be written.
  virtual SegmentIndex::Number enter(const Segment& segment) = 0;
  Place reserve(const Segment& segment);

  PageKind kind_;
  std::uint64_t most_bytes_;

 protected:
  SegmentIndex index_;
};

}  // namespace millrace::engine
