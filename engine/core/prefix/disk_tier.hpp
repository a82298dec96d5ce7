#pragma once
// Segments in a folder, behind the prefix tree, so that computed pages outlive the process. The
// owner makes requests and takes their answers; one thread reads and writes files, reads first, so
// that no step of the engine waits for a disk.
//
// A segment that is damaged, half written or another engine's counts as absent: it is never read,
// and a warning is logged once. One engine owns the folder while it runs. The folder holds at most
// so many bytes. To make room, segments of another fingerprint are removed first, then the least
// recently used. The beginning of a path is never removed for its own end, which is useless
// without it: if the folder does not hold a whole path, its beginning is kept and `reserve`
// refuses the rest.
// Errors of open: invalid_value if the limit is too small for one page and the state after it,
// output_in_use, io_error.
// Later errors of the disk cost hits and cause a warning, but never fail a job. Thread safety: one
// owner thread.
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <set>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "engine/core/prefix/segment_index.hpp"

namespace millrace::engine {

struct DiskTierOptions {
  std::string folder;
  std::uint64_t bytes = 0;  // limit of all segment files
  PageKind kind;
};

class DiskTier {
 public:
  // Reads the folder's contents.
  static Result<std::unique_ptr<DiskTier>> open(std::shared_ptr<Env> env,
                                                const DiskTierOptions& options);
  ~DiskTier();  // waits until everything saved is written
  DiskTier(const DiskTier&) = delete;
  DiskTier& operator=(const DiskTier&) = delete;

  SegmentIndex& index() { return index_; }
  std::uint64_t most_bytes() const { return options_.bytes; }

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
  void save(SegmentIndex::Number number, std::vector<char> bytes);
  void abandon(SegmentIndex::Number number) { index_.remove(number); }
  // Whether more may be saved now: false while much waits for the disk, and after a failed write.
  bool accepts() const;
  std::uint64_t unwritten_bytes() const;  // bytes that were saved and are not in their file yet
  bool has_failed() const { return write_failed_; }

  // Requests a read; take() returns the answer. A segment that was removed since it was found
  // cannot be read.
  void load(std::uint64_t ticket, const SegmentIndex::Piece& piece);
  struct Loaded {
    std::uint64_t ticket = 0;
    SegmentIndex::Piece piece;
    std::vector<char> bytes;  // empty: the segment could not be read and was removed
  };
  std::vector<Loaded> take();
  // Waits until take() has something or no request is open, but at most so long, so that a disk
  // that hangs does not stop the engine.
  static constexpr std::uint32_t most_wait_ms = 100;
  void wait();

 private:
  struct Load {
    Loaded answer;
    Segment segment;
    Status status;
  };
  struct Write {  // the write of a file; without bytes, its removal: no segment is empty
    SegmentIndex::Number number = 0;
    Segment segment;
    std::vector<char> bytes;
    Status status;
  };

  DiskTier(std::shared_ptr<Env> env, const DiskTierOptions& options,
           std::unique_ptr<FileLock> lock);
  Status read_folder();
  void read_file(const std::string& name, SegmentIndex::Number number);
  Place reserve(Segment segment);
  bool make_room(std::uint64_t bytes, const std::set<SegmentIndex::Number>& kept);
  void forget(SegmentIndex::Number number);
  void tell(SegmentIndex::Number number, const char* what, const Error& error);
  std::string path_of(SegmentIndex::Number number) const;
  void work();
  void carry_out(Load& load);
  void carry_out(Write& write);

  std::shared_ptr<Env> env_;
  DiskTierOptions options_;
  std::unique_ptr<FileLock> lock_;
  SegmentIndex index_;
  SegmentIndex::Number next_ = 1;
  std::uint32_t foreign_ = 0;
  bool write_failed_ = false;

  mutable std::mutex mutex_;
  std::condition_variable asked_, answered_;
  std::deque<Load> loads_, loaded_;
  std::deque<Write> writes_, written_;
  std::uint64_t unwritten_bytes_ = 0;
  std::uint32_t under_way_ = 0;  // requests that the thread has taken and not answered
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace millrace::engine
