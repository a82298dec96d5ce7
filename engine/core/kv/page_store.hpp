#pragma once
// A slower memory behind the prefix tree, as the scheduler sees it: it brings whole pages of a path
// of tokens, later. Thread safety: the scheduler's owner thread.
#include <cstdint>
#include <span>

#include "engine/core/model/plan.hpp"

namespace millrace::engine {

class PageStore {
 public:
  virtual ~PageStore() = default;
  // How many whole pages from the beginning of `tokens` would be known if all that it has after the
  // first `known` were brought.
  virtual std::uint32_t find(std::span<const TokenId> tokens, std::uint32_t known) = 0;
  // Brings the whole pages of `tokens` from page `first` on, which find() has just named, into
  // `pages`. Answered by Scheduler::fetched with this ticket, once.
  virtual void fetch(std::uint64_t ticket, std::span<const TokenId> tokens, std::uint32_t first,
                     std::span<const PageId> pages) = 0;
  // The tree holds the whole pages of `tokens`, and they are likely to be wanted again.
  virtual void offer(std::span<const TokenId> tokens) = 0;
};

}  // namespace millrace::engine
