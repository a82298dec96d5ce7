#include "engine/core/kv/cache_pools.hpp"

#include <algorithm>
#include <cassert>

namespace millrace::engine {

CachePools::CachePools(std::uint32_t page_tokens, std::span<const PoolSize> groups,
                       std::uint32_t row_tokens)
    : row_tokens_(row_tokens) {
  assert(!groups.empty() && groups.front().window == 0 && !groups.front().states);
  has_states_ = groups.back().states;
  for (const PoolSize& group : groups) {
    pools_.emplace_back(group.pages, page_tokens);
    windows_.push_back(group.window);
    page_bytes_.push_back(group.page_bytes);
  }
}

std::uint64_t CachePools::most_pages(std::size_t group, std::uint64_t positions,
                                     std::uint32_t row_tokens) const {
  const PagePool& pool = pools_[group];
  const std::uint64_t all = pool.pages_for(positions);
  if (windows_[group] == 0) return all;
  const auto most = most_window_positions(windows_[group], row_tokens, page_tokens());
  return std::min<std::uint64_t>(all, pool.pages_for(most));
}

std::uint64_t CachePools::most_positions() const {
  std::uint64_t out = std::uint64_t{pools_.front().total()} * page_tokens();
  for (std::size_t group = 1; group < groups(); ++group) {
    const auto most = most_window_positions(windows_[group], row_tokens_, page_tokens());
    const std::uint64_t room = std::uint64_t{pools_[group].total()} * page_tokens();
    if (room < pools_[group].pages_for(most) * std::uint64_t{page_tokens()}) {
      out = std::min(out, room);
    }
  }
  return out;
}

std::uint64_t CachePools::total() const {
  std::uint64_t out = 0;
  for (const PagePool& pool : std::span(pools_).first(groups())) out += pool.total();
  return out;
}

std::uint64_t CachePools::in_use() const {
  std::uint64_t out = 0;
  for (const PagePool& pool : std::span(pools_).first(groups())) out += pool.used() - pool.idle();
  return out;
}

std::uint64_t CachePools::bytes() const {
  std::uint64_t out = 0;
  for (std::size_t i = 0; i < groups(); ++i) out += pools_[i].total() * page_bytes_[i];
  return out;
}

std::uint64_t CachePools::bytes_in_use() const {
  std::uint64_t out = 0;
  for (std::size_t i = 0; i < groups(); ++i) {
    out += (pools_[i].used() - pools_[i].idle()) * page_bytes_[i];
  }
  return out;
}

std::uint64_t CachePools::tokens_in_use() const {
  const PagePool& first = pools_.front();
  return std::uint64_t{first.used() - first.idle()} * page_tokens();
}

SequencePages::SequencePages(CachePools& pools) : pools_(&pools), states_(pools.states()) {
  tables_.reserve(pools.groups());
  for (std::size_t group = 0; group < pools.groups(); ++group) tables_.emplace_back(pools[group]);
}

void SequencePages::forget_before(std::uint32_t position) {
  for (std::size_t group = 1; group < tables_.size(); ++group) {
    tables_[group].forget(pools_->first_page(group, position));
  }
}

std::vector<PageId> SequencePages::held(std::size_t pool) const {
  if (pool == tables_.size()) return states_.held();
  const auto pages = tables_[pool].pages();
  return {pages.begin(), pages.end()};
}

void SequencePages::clear() {
  for (PageTable& table : tables_) table.clear();
  states_.clear();
}

}  // namespace millrace::engine
