#include <algorithm>
#include <vector>

#include "engine/core/scheduler/scheduler.hpp"

// The scheduler's room for pages in every cache group: what sequences will need, and how they get
// it.
namespace millrace::engine {

// Adds the pages of each group that a sequence lacks for its forecast.
void Scheduler::add_lacking(PageCounts& pages, const Sequence& sequence) const {
  const std::uint64_t positions = sequence.forecast(lengths_.ahead(sequence.drawn()));
  const std::uint32_t row_tokens = sequence.remaining() > 1 ? pools_->row_tokens() : 1;
  for (std::size_t group = 0; group < pools_->groups(); ++group) {
    const std::uint64_t most = pools_->most_pages(group, positions, row_tokens);
    pages[group] += most - std::min<std::uint64_t>(most, sequence.pages[group].size());
  }
  if (pools_->has_states() && sequence.pages.states().to() == no_page) pages.back() += 1;
}

Scheduler::PageCounts Scheduler::lacking(const Sequence& sequence) const {
  PageCounts pages(pools_->pools());
  add_lacking(pages, sequence);
  return pages;
}

// Whether the pools have so many pages beyond the forecasts of all running sequences.
bool Scheduler::have_room_for(PageCounts pages) const {
  for (const SequenceId id : running_) add_lacking(pages, sequences_.at(id));
  for (std::size_t group = 0; group < pages.size(); ++group) {
    const PagePool& pool = (*pools_)[group];
    if (pages[group] > std::uint64_t{pool.available()} + pool.idle()) return false;
  }
  return true;
}

// The number of known pages of group 0 that rows hold which would not be paused for the sequence.
// Known pages that only other rows hold, or none, count as new pages: once they are shared, pausing
// those rows does not free them. Of windowed groups all known pages count as new.
std::uint64_t Scheduler::held_by_urgent(SequenceId id, const Sequence& sequence) {
  if (sequence.scores_prompt()) return 0;
  const auto tokens = std::span<const TokenId>(sequence.tokens).first(sequence.tokens.size() - 1);
  const std::vector<PageId> known = tree_.find(sequence.space, tokens).pages;
  std::uint64_t held = 0;
  for (const SequenceId other : running_) {
    if (priority_of(other) > priority_of(id)) break;
    const auto differs = std::ranges::mismatch(known, sequences_.at(other).pages[0].pages()).in1;
    held = std::max(held, static_cast<std::uint64_t>(differs - known.begin()));
  }
  return held;
}

// Whether so many rows and pages would be free if all less urgent sequences were paused.
bool Scheduler::could_make_room(std::uint64_t priority, std::uint64_t rows,
                                PageCounts pages) const {
  for (const SequenceId id : running_) {
    if (priority_of(id) > priority) break;
    rows += 1;
    add_lacking(pages, sequences_.at(id));
  }
  if (rows > options_.max_batch) return false;
  for (std::size_t group = 0; group < pages.size(); ++group) {
    const PagePool& pool = (*pools_)[group];
    std::uint64_t room = std::uint64_t{pool.available()} + pool.idle();
    std::vector<bool> counted(pool.total());  // urgent ones come first: pages they share stay
    for (const SequenceId id : running_) {
      const bool stays = priority_of(id) <= priority;
      for (const PageId page : sequences_.at(id).pages.held(group)) {
        room += stays || counted[page] ? 0 : 1;
        counted[page] = true;
      }
    }
    if (pages[group] > room) return false;
  }
  return true;
}

// Makes the sequence hold the pages of a row that begins at `from`: all of group 0 for its tokens,
// and of windowed groups those that such a row sees and writes. Gives up what lies behind the
// windows, and evicts pages that only the tree holds if needed.
bool Scheduler::cover(Sequence& sequence, std::uint32_t from) {
  const std::uint32_t length = sequence.length();
  sequence.pages.forget_before(sequence.resumes_at(pools_->page_tokens()));
  for (std::size_t group = 1; group < pools_->groups(); ++group) {
    const std::uint32_t end = from + std::min(length - from, pools_->row_tokens());
    if (!cover(sequence.pages, group, end)) return false;
  }
  return take_state(sequence.pages) && cover(sequence.pages, 0, length);
}

bool Scheduler::take_state(SequencePages& pages) {
  if (pages.states().take()) return true;
  tree_.evict(pools_->groups(), 1);
  return pages.states().take();
}

bool Scheduler::cover(SequencePages& pages, std::size_t group, std::uint64_t tokens) {
  const PagePool& pool = (*pools_)[group];
  const std::uint32_t end = pool.pages_for(tokens);
  const std::uint32_t lacking = end - std::min(end, pages[group].end());
  if (lacking > pool.available()) tree_.evict(group, lacking - pool.available());
  return pages[group].cover(tokens);
}

// Makes the sequence hold the pages of a row that begins at `from`, and pauses sequences after it
// if needed, the last one first.
bool Scheduler::make_room_for(SequenceId id, std::uint32_t from) {
  Sequence& sequence = sequences_.at(id);
  while (!cover(sequence, from)) {
    if (running_.empty() || *running_.rbegin() <= id) return false;
    pause(*running_.rbegin());
  }
  return true;
}

}  // namespace millrace::engine
