#pragma once
// What the files of a folder hold, by path of tokens: a tree of pages, found and told apart by
// their tokens, each naming the segment it is in. No files here: the index is told what was written
// and says what to remove. Thread safety: one owner thread.
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

  explicit SegmentIndex(std::uint32_t page_tokens);
  ~SegmentIndex();
  SegmentIndex(const SegmentIndex&) = delete;
  SegmentIndex& operator=(const SegmentIndex&) = delete;

  // A stretch of a segment: `count` pages from its page `skip` on.
  struct Piece {
    Number segment = 0;
    std::uint32_t skip = 0, count = 0;
  };
  // Where the pages of `tokens` from page `first` on are, up to the first that is in no segment
  // that can be read. A read: all segments on the path count as used, deepest first, so that ends
  // go before beginnings.
  std::vector<Piece> find(std::span<const TokenId> tokens, std::uint32_t first);
  // The first page of `tokens` that no segment has or will have; the number of whole pages when
  // there is none. A read as well.
  std::uint32_t first_missing(std::span<const TokenId> tokens);

  // A segment that is being written; readable once `finished`. Pages known already move to it. A
  // use of its path, so that of what is found at start, too, ends go before beginnings.
  void add(Number number, const Segment& segment);
  void finished(Number number) { segments_.at(number).readable = true; }
  // One whose pages are nobody's: it only takes room, and goes first.
  void add_foreign(Number number, std::uint64_t bytes);
  void remove(Number number);
  bool contains(Number number) const { return segments_.contains(number); }
  bool is_readable(Number number) const { return segments_.at(number).readable; }
  const Segment& segment(Number number) const { return segments_.at(number).segment; }

  // The segments that hold the first `pages` pages of a path.
  std::set<Number> holders(std::span<const TokenId> tokens, std::uint32_t pages) const;
  // The segment that was not used for longest, and is none of `kept`.
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
  // The nodes of the path's whole pages, as far as there are any.
  std::vector<Node*> walk(std::span<const TokenId> tokens) const;
  void use(const std::vector<Node*>& path);

  std::uint32_t page_tokens_;
  std::unique_ptr<Node> root_;
  std::map<Number, Known> segments_;
  std::uint64_t uses_ = 0;
  std::uint64_t bytes_ = 0;
};

}  // namespace millrace::engine
