#pragma once
// The book-keeping of the KV pool's pages on the host; CacheGroup holds their bytes. A page holds
// `page_tokens` consecutive positions of one cache group. Pages are reference counted, because
// sequences with a common beginning share whole pages; a shared page is always full and is never
// written again. One of the references may be the prefix tree's. A page with no other reference is
// `idle`: the tree can evict it. An exhausted pool is not an error: functions return nothing or
// false, and the scheduler pauses a sequence. Thread safety: one owner thread.
#include <cstdint>
#include <iosfwd>
#include <optional>
#include <span>
#include <vector>

#include "engine/core/model/plan.hpp"

namespace millrace::engine {

class PagePool {
 public:
  PagePool(std::uint32_t pages, std::uint32_t page_tokens);

  std::uint32_t page_tokens() const { return page_tokens_; }
  std::uint32_t total() const { return static_cast<std::uint32_t>(references_.size()); }
  std::uint32_t available() const { return static_cast<std::uint32_t>(free_.size()); }
  std::uint32_t used() const { return total() - available(); }
  std::uint32_t idle() const { return idle_; }  // pages that only the prefix tree holds
  std::uint32_t references(PageId page) const { return references_[page]; }
  // The number of pages that hold `tokens` positions.
  std::uint32_t pages_for(std::uint64_t tokens) const {
    return static_cast<std::uint32_t>((tokens + page_tokens_ - 1) / page_tokens_);
  }

  std::optional<PageId> allocate();  // with one reference; nothing if the pool is exhausted
  void retain(PageId page);          // adds a reference
  void release(PageId page);         // removes a reference; the last one frees the page
  // Add and remove the prefix tree's reference, of which a page has at most one.
  void keep(PageId page);
  void drop(PageId page);
  bool is_kept(PageId page) const { return kept_[page]; }
  void dump(std::ostream& out) const;

 private:
  std::uint32_t page_tokens_;
  std::uint32_t idle_ = 0;
  std::vector<std::uint32_t> references_;
  std::vector<bool> kept_;
  std::vector<PageId> free_;  // used as a stack
};

// The pages of one sequence in one pool, first position first. A table may have given up its first
// pages, whose positions nothing reads any more. The destructor gives the others back.
class PageTable {
 public:
  explicit PageTable(PagePool& pool) : pool_(&pool) {}
  PageTable(PageTable&& other) noexcept;
  PageTable& operator=(PageTable&& other) noexcept;
  PageTable(const PageTable&) = delete;
  PageTable& operator=(const PageTable&) = delete;
  ~PageTable() { clear(); }

  // Pages first() to end() - 1 of the sequence.
  std::span<const PageId> pages() const { return pages_; }
  std::uint32_t size() const { return static_cast<std::uint32_t>(pages_.size()); }
  std::uint32_t first() const { return first_; }
  std::uint32_t end() const { return first_ + size(); }
  bool has(std::uint32_t index) const { return index >= first_ && index < end(); }
  PageId at(std::uint32_t index) const { return pages_[index - first_]; }

  // Makes the table hold pages for positions up to `tokens`, except those it has given up.
  // Allocates all the missing pages, or none and returns false.
  bool cover(std::uint64_t tokens);
  // Gives back the pages that hold only positions from `tokens` on. If the last page that stays is
  // partial it must not be shared, because the next positions will be written into it.
  void truncate(std::uint64_t tokens);
  // Gives up the pages before page `first`; the table goes on from there even if it is empty.
  void forget(std::uint32_t first);
  // Appends a page that others hold too; this table must only read it.
  void share(PageId page);
  // Replaces page `index` by another page of the same content.
  void replace(std::uint32_t index, PageId page);
  void clear();

 private:
  PagePool* pool_;
  std::uint32_t first_ = 0;
  std::vector<PageId> pages_;
};

}  // namespace millrace::engine
