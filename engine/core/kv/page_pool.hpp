#pragma once
// Which pages of the KV pool belong to whom: host-side book-keeping only, the bytes are elsewhere.
// A page holds `page_tokens` consecutive positions of one cache group. Pages are reference
// counted, because sequences with a common beginning share whole pages; a shared page is always
// full and is never written again. One of the references may be the prefix tree's: a page that
// nobody else holds is `idle`, and can be had by asking the tree. Exhaustion is a value, not an
// error: the scheduler answers it by pausing somebody. Thread safety: one owner thread.
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
  std::uint32_t idle() const { return idle_; }  // used by the prefix tree alone
  std::uint32_t references(PageId page) const { return references_[page]; }
  // Pages that hold `tokens` positions.
  std::uint32_t pages_for(std::uint64_t tokens) const {
    return static_cast<std::uint32_t>((tokens + page_tokens_ - 1) / page_tokens_);
  }

  std::optional<PageId> allocate();  // with one reference; nothing when the pool is exhausted
  void retain(PageId page);
  void release(PageId page);  // free again with its last reference
  // The prefix tree's reference; a page has at most one.
  void keep(PageId page);
  void drop(PageId page);
  void dump(std::ostream& out) const;  // all of it, as text

 private:
  std::uint32_t page_tokens_;
  std::uint32_t idle_ = 0;
  std::vector<std::uint32_t> references_;
  std::vector<bool> kept_;
  std::vector<PageId> free_;  // used as a stack
};

// The pages of one sequence, first position first. Gives them back when it goes.
class PageTable {
 public:
  explicit PageTable(PagePool& pool) : pool_(&pool) {}
  PageTable(PageTable&& other) noexcept;
  PageTable& operator=(PageTable&& other) noexcept;
  PageTable(const PageTable&) = delete;
  PageTable& operator=(const PageTable&) = delete;
  ~PageTable() { clear(); }

  std::span<const PageId> pages() const { return pages_; }
  std::uint32_t size() const { return static_cast<std::uint32_t>(pages_.size()); }

  // Makes positions [0, tokens) writable; takes all the pages that it lacks or none.
  bool cover(std::uint64_t tokens);
  // Gives back what holds only positions from `tokens` on. The last page kept may be partial; it
  // must not be shared, for what follows will be written into it.
  void truncate(std::uint64_t tokens);
  // Appends a page that others hold too, for the next positions; it is only read.
  void share(PageId page);
  // Takes another page of the same content in place of its own.
  void replace(std::size_t index, PageId page);
  void clear() { truncate(0); }

 private:
  PagePool* pool_;
  std::vector<PageId> pages_;
};

}  // namespace millrace::engine
