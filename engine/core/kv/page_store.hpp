#pragma once
// The interface between the scheduler and a slower memory behind the prefix tree, which fetches
// whole pages of a path of tokens in the background, and of models with states the state at its
// end. Thread safety: the scheduler's owner thread.
#include <cstdint>
#include <span>
#include <vector>

#include "engine/core/model/plan.hpp"

namespace millrace::engine {

// What the prefix tree holds whole of a path's beginning: of each page one id of every cache group,
// and for models with states the state after the last of these pages.
struct HeldPages {
  std::vector<PageId> pages;
  PageId state = no_page;
};

class PageStore {
 public:
  virtual ~PageStore() = default;
  // The tree knows the first `known` whole pages of `tokens`. Returns how many it would know if the
  // store fetched all pages after them that it has.
  virtual std::uint32_t find(std::span<const TokenId> tokens, std::uint32_t known) = 0;
  // Fetches the pages of `path` from page `first` on into `pages`: of each page one of every cache
  // group, or no_page where it is not wanted. The state after them goes into `state`; no_page for
  // models without states. find() has just counted the path's pages. Scheduler::fetched is called
  // with this ticket once, when it is done.
  virtual void fetch(std::uint64_t ticket, std::span<const TokenId> path, std::uint32_t first,
                     std::span<const PageId> pages, PageId state) = 0;
  // Offers the whole pages of `tokens`, which the tree holds, for storing, with the state after
  // them: they are likely to be needed again.
  virtual void offer(std::span<const TokenId> tokens) = 0;
};

}  // namespace millrace::engine
