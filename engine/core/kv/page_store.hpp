#pragma once
// The interface between the scheduler and a slower memory behind the prefix tree, which fetches
// whole pages of a path of tokens in the background. Thread safety: the scheduler's owner thread.
#include <cstdint>
#include <span>

#include "engine/core/model/plan.hpp"

namespace millrace::engine {

class PageStore {
 public:
  virtual ~PageStore() = default;
  // The tree knows the first `known` whole pages of `tokens`. Returns how many it would know if the
  // store fetched all pages after them that it has.
  virtual std::uint32_t find(std::span<const TokenId> tokens, std::uint32_t known) = 0;
  // Fetches the whole pages of `tokens` from page `first` on, which find() has just counted, into
  // `pages`: of each page one of every cache group, or no_page where it is not wanted.
  // Scheduler::fetched is called with this ticket once, when it is done.
  virtual void fetch(std::uint64_t ticket, std::span<const TokenId> tokens, std::uint32_t first,
                     std::span<const PageId> pages) = 0;
  // Offers the whole pages of `tokens`, which the tree holds, for storing: they are likely to be
  // needed again.
  virtual void offer(std::span<const TokenId> tokens) = 0;
};

}  // namespace millrace::engine
