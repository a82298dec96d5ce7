#include "engine/core/kv/sequence_states.hpp"

#include <cassert>
#include <utility>

namespace millrace::engine {

SequenceStates::SequenceStates(SequenceStates&& other) noexcept
    : pool_(other.pool_),
      from_(std::exchange(other.from_, no_page)),
      to_(std::exchange(other.to_, no_page)),
      read_(std::exchange(other.read_, no_page)),
      kept_(std::exchange(other.kept_, {})) {}

SequenceStates& SequenceStates::operator=(SequenceStates&& other) noexcept {
  if (this == &other) return *this;
  clear();
  pool_ = other.pool_;
  from_ = std::exchange(other.from_, no_page);
  to_ = std::exchange(other.to_, no_page);
  read_ = std::exchange(other.read_, no_page);
  kept_ = std::exchange(other.kept_, {});
  return *this;
}

bool SequenceStates::take() {
  if (pool_ == nullptr || to_ != no_page) return true;
  const std::optional<PageId> page = pool_->allocate();
  if (page) to_ = *page;
  return page.has_value();
}

void SequenceStates::resume(PageId page) {
  if (pool_ == nullptr) return;
  assert(from_ == no_page);
  pool_->retain(page);
  from_ = page;
}

void SequenceStates::advance() {
  if (pool_ == nullptr) return;
  assert(to_ != no_page);
  give_back(read_);
  read_ = std::exchange(from_, to_);
  pool_->retain(to_);
}

bool SequenceStates::keep(std::uint32_t index) {
  if (pool_ == nullptr) return true;
  assert(from_ == to_);
  const std::optional<PageId> next = pool_->allocate();
  if (!next) return false;
  kept_[index] = std::exchange(to_, *next);
  return true;
}

bool SequenceStates::receive(std::uint32_t index) {
  const std::optional<PageId> page = pool_->allocate();
  if (page) kept_[index] = *page;
  return page.has_value();
}

std::optional<PageId> SequenceStates::kept(std::uint32_t index) const {
  const auto found = kept_.find(index);
  return found == kept_.end() ? std::nullopt : std::optional(found->second);
}

void SequenceStates::settle(bool all) {
  std::erase_if(kept_, [&](const auto& entry) {
    if (!all && !pool_->is_kept(entry.second)) return false;
    pool_->release(entry.second);
    return true;
  });
}

void SequenceStates::clear() {
  give_back(from_);
  give_back(to_);
  give_back(read_);
  for (const auto& [index, page] : kept_) pool_->release(page);
  kept_.clear();
}

std::vector<PageId> SequenceStates::held() const {
  std::vector<PageId> out;
  for (const PageId page : {from_, to_, read_}) {
    if (page != no_page) out.push_back(page);
  }
  for (const auto& [index, page] : kept_) out.push_back(page);
  return out;
}

void SequenceStates::give_back(PageId& page) {
  if (page != no_page) pool_->release(page);
  page = no_page;
}

}  // namespace millrace::engine
