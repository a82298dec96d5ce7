#pragma once
// The contents of a folder's files, by path of tokens: a tree of pages, which are compared by their
// tokens and name the segment that holds them, and the one that holds the state after them. The
// index touches no files: its owner says what was written, and asks what to remove. Thread safety:
// one owner thread.
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <vector>

#include "engine/core/prefix/segment.hpp"

namespace millrace::engine {

class SegmentIndex {
 public:
  using Number = std::uint64_t;  // of a segment; a larger one is newer

  explicit SegmentIndex(const PageKind& kind);
  ~SegmentIndex();
  SegmentIndex(const SegmentIndex&) = delete;
  SegmentIndex& operator=(const SegmentIndex&) = delete;

  // Part of a segment: `count` pages from its page `skip` on, or its state.
  struct Piece {
    Number segment = 0;
    std::uint32_t skip = 0, count = 0;
    bool state = false;
  };
  // Finds how many pages of `tokens` are known to a reader that has the first `known`: up to the
  // first one that no readable segment holds, and, of a model with states, up to the last after
  // which a readable segment holds the state. All segments on the path count as used, the deepest
  // first, so that ends are removed before beginnings, and states before the pages before them.
  std::uint32_t find(std::span<const TokenId> tokens, std::uint32_t known);
  // The pieces of a path that find() has just counted: its pages from `first` on, then its state.
  std::vector<Piece> pieces(std::span<const TokenId> path, std::uint32_t first) const;
  // Returns the first page of `tokens` that is in no segment, not even in one that is being
  // written, or the number of whole pages if there is none. This counts as a use of the path, too.
  std::uint32_t first_missing(std::span<const TokenId> tokens);
  // Whether the state after the whole pages of `tokens` is in a segment, or being written. Always
  // true for a model without states.
  bool has_state(std::span<const TokenId> tokens) const;

  // Adds a segment that is being written; it is readable once `finished`. Pages that the index
  // knows already move to it. Its path counts as used, so that for segments found at start, too,
  // ends are removed before beginnings.
  void add(Number number, const Segment& segment);
  void finished(Number number) { segments_.at(number).readable = true; }
  // Adds a segment of another engine: it only takes room, and is removed first.
  void add_foreign(Number number, std::uint64_t bytes);
  void remove(Number number);
  bool contains(Number number) const { return segments_.contains(number); }
  bool is_readable(Number number) const { return segments_.at(number).readable; }
  const Segment& segment(Number number) const { return segments_.at(number).segment; }

  // The segments that hold the first `pages` pages of a path and the states after them.
  std::set<Number> holders(std::span<const TokenId> tokens, std::uint32_t pages) const;
  // The least recently used segment that is not in `kept`.
  std::optional<Number> oldest(const std::set<Number>& kept = {}) const;
  std::uint64_t bytes() const { return bytes_; }  // of all segments' files
  std::uint64_t bytes_of(const std::set<Number>& numbers) const;
  std::size_t size() const { return segments_.size(); }

 private:
  struct Node;
  struct Known {
    Segment segment;
    std::uint64_t bytes = 0;
    std::uint64_t used = 0;
    bool readable = false;
  };
  // The nodes of the path's whole pages, up to the first that is missing.
  std::vector<Node*> walk(std::span<const TokenId> tokens) const;
  void use(const std::vector<Node*>& path);
  bool readable(Number number) const { return number != 0 && segments_.at(number).readable; }

  PageKind kind_;
  std::unique_ptr<Node> root_;
  std::map<Number, Known> segments_;
  std::uint64_t uses_ = 0;
  std::uint64_t bytes_ = 0;
};

}  // namespace millrace::engine
