#include "engine/core/kv/page_pool.hpp"

#include <algorithm>
#include <cassert>
#include <utility>

namespace millrace::engine {

PagePool::PagePool(std::uint32_t pages, std::uint32_t page_tokens)
    : page_tokens_(page_tokens), references_(pages, 0), kept_(pages, false) {
  free_.reserve(pages);
  for (std::uint32_t page = pages; page > 0; --page) free_.push_back(page - 1);
}

std::optional<PageId> PagePool::allocate() {
  if (free_.empty()) return std::nullopt;
  const PageId page = free_.back();
  free_.pop_back();
  assert(references_[page] == 0);
  references_[page] = 1;
  return page;
}

void PagePool::retain(PageId page) {
  assert(references_[page] > 0);
  if (kept_[page] && references_[page] == 1) --idle_;
  ++references_[page];
}

void PagePool::release(PageId page) {
  assert(references_[page] > 0);
  if (--references_[page] == 0) free_.push_back(page);
  if (kept_[page] && references_[page] == 1) ++idle_;
}

void PagePool::keep(PageId page) {
  assert(!kept_[page]);
  retain(page);
  kept_[page] = true;
}

void PagePool::drop(PageId page) {
  assert(kept_[page]);
  if (references_[page] == 1) --idle_;
  kept_[page] = false;
  release(page);
}

PageTable::PageTable(PageTable&& other) noexcept
    : pool_(other.pool_),
      first_(std::exchange(other.first_, 0)),
      pages_(std::exchange(other.pages_, {})) {}

PageTable& PageTable::operator=(PageTable&& other) noexcept {
  if (this == &other) return *this;
  clear();
  pool_ = other.pool_;
  first_ = std::exchange(other.first_, 0);
  pages_ = std::exchange(other.pages_, {});
  return *this;
}

bool PageTable::cover(std::uint64_t tokens) {
  const std::uint32_t wanted = pool_->pages_for(tokens);
  if (wanted <= end()) return true;
  if (wanted - end() > pool_->available()) return false;
  while (end() < wanted) pages_.push_back(*pool_->allocate());
  return true;
}

void PageTable::truncate(std::uint64_t tokens) {
  const std::uint32_t kept = pool_->pages_for(tokens);
  while (!pages_.empty() && end() > kept) {
    pool_->release(pages_.back());
    pages_.pop_back();
  }
}

void PageTable::forget(std::uint32_t first) {
  if (first <= first_) return;
  const auto gone = pages_.begin() + std::min(first - first_, size());
  for (auto page = pages_.begin(); page != gone; ++page) pool_->release(*page);
  pages_.erase(pages_.begin(), gone);
  first_ = first;
}

void PageTable::share(PageId page) {
  pool_->retain(page);
  pages_.push_back(page);
}

void PageTable::replace(std::uint32_t index, PageId page) {
  pool_->retain(page);
  pool_->release(std::exchange(pages_[index - first_], page));
}

void PageTable::clear() {
  truncate(0);
  first_ = 0;
}

}  // namespace millrace::engine
