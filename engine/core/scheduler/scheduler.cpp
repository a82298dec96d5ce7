#include "engine/core/scheduler/scheduler.hpp"

#include <algorithm>
#include <cassert>
#include <span>
#include <string>

namespace millrace::engine {
namespace {

constexpr std::uint32_t priority_shift = 56;  // the priority's place in a sequence's id
std::uint64_t priority_of(SequenceId id) {
  return id >> priority_shift;
}

// When a sequence waits for another's pages, admission looks at so many behind it for one that can
// go ahead.
constexpr std::uint32_t look_ahead = 512;

// Fewer tokens of a partly known page are computed rather than copied, because that is faster.
constexpr std::uint32_t least_copied_tokens = 4;

}  // namespace

Scheduler::Scheduler(const SchedulerOptions& options, PagePool& pool)
    : options_(options), pool_(&pool), tree_(pool), lengths_(options.forecast_tokens) {
  if (options.prefix_cache) shared_ = tree_.open(options.fingerprint);
}

Status Scheduler::fits(const PagePool& pool, std::uint64_t prompt_tokens,
                       std::uint64_t max_tokens) {
  const std::uint64_t positions = prompt_tokens + max_tokens - (max_tokens > 0 ? 1 : 0);
  const std::uint64_t room = std::uint64_t{pool.total()} * pool.page_tokens();
  if (positions <= room) return {};
  return fail(Code::kv_exceeded,
              "the sequence needs KV memory for " + std::to_string(positions) + " tokens (prompt " +
                  std::to_string(prompt_tokens) + ", max_tokens " + std::to_string(max_tokens) +
                  "), the pool holds " + std::to_string(room),
              "raise --kv-memory, or shorten the prompt or max_tokens");
}

SequenceId Scheduler::add(const SequenceSpec& spec, std::uint32_t siblings) {
  assert(!spec.prompt.empty());
  const SequenceId first = (SequenceId{spec.priority} << priority_shift) | next_id_;
  next_id_ += 1 + siblings;
  const PrefixTree::Space space = shared_ ? shared_ : tree_.open(std::to_string(first));
  for (SequenceId id = first; id <= first + siblings; ++id) {
    Sequence& sequence = sequences_.try_emplace(id, *pool_, space).first->second;
    sequence.tokens = spec.prompt;
    sequence.prompt_tokens = static_cast<std::uint32_t>(spec.prompt.size());
    sequence.max_tokens = spec.max_tokens;
    sequence.prompt_logprobs = spec.prompt_logprobs && id == first;
    sequence.checkpoints = spec.checkpoints;
    waiting_.insert(id);
  }
  return first;
}

void Scheduler::deliver(SequenceId id, TokenId token) {
  const auto found = sequences_.find(id);
  if (found == sequences_.end()) return;
  assert(found->second.pending > 0);
  --found->second.pending;
  found->second.tokens.push_back(token);
}

void Scheduler::finish(SequenceId id) {
  const auto found = sequences_.find(id);
  if (found == sequences_.end()) return;
  if (found->second.drawn() > 0) lengths_.ended(found->second.drawn());
  leave_pages(found->second);
  used_slots_.erase(found->second.slot);
  running_.erase(id);
  waiting_.erase(id);
  sequences_.erase(found);
}

void Scheduler::set_step_tokens(std::uint32_t tokens) {
  options_.step_tokens = std::max(tokens, options_.max_batch);
}

std::uint32_t Scheduler::waiting() const {
  return static_cast<std::uint32_t>(waiting_.size());
}

bool Scheduler::plan(PlannedStep& step) {
  step.clear();
  make_way();
  plan_decodes(step);
  plan_prefills(step);
  admit(step);
  return !step.plan.rows.empty();
}

// Pauses less urgent sequences, the last in order first, for as many waiting ones as this step can
// begin. This must come before anything is planned: a row of the step keeps its pages.
void Scheduler::make_way() {
  std::uint64_t rows = 0, pages = 0, tokens = 0;
  for (const SequenceId id : waiting_) {
    const auto urgent = [&] {
      return !running_.empty() && priority_of(*running_.rbegin()) > priority_of(id);
    };
    if (!urgent() || tokens >= options_.step_tokens) return;
    Sequence& sequence = sequences_.at(id);
    if (waits(sequence)) continue;
    rows += 1;
    pages += lacking(sequence) - std::min(lacking(sequence), held_by_urgent(id, sequence));
    tokens += sequence.remaining();
    if (!could_make_room(priority_of(id), rows, pages)) return;
    while (urgent() && (running_.size() + rows > options_.max_batch || !have_room_for(pages))) {
      pause(*running_.rbegin());
    }
  }
}

// Plans the sequences with one token to compute. Only these grow: all pages of a prompt are taken
// at admission. The loop is in order of service, so a sequence that make_room_for pauses is not
// planned yet.
void Scheduler::plan_decodes(PlannedStep& step) {
  const std::vector<SequenceId> order(running_.begin(), running_.end());
  for (const SequenceId id : order) {
    if (!running_.contains(id)) continue;  // it was paused for one before it
    Sequence& sequence = sequences_.at(id);
    if (!sequence.decodes()) continue;
    if (make_room_for(id, sequence.length())) {
      append_row(step, id, sequence, 1, *pool_);
    } else {
      pause(id);
    }
  }
}

void Scheduler::plan_prefills(PlannedStep& step) {
  for (const SequenceId id : running_) {
    Sequence& sequence = sequences_.at(id);
    if (sequence.remaining() > 1) plan_chunk(step, id, sequence);
  }
}

void Scheduler::plan_chunk(PlannedStep& step, SequenceId id, Sequence& sequence) {
  const std::uint32_t count = chunk_size(options_, step, sequence);
  if (count > 0) append_row(step, id, sequence, count, *pool_);
}

void Scheduler::admit(PlannedStep& step) {
  auto next = waiting_.begin();
  for (std::uint32_t looked = 0; looked < look_ahead && next != waiting_.end(); ++looked) {
    if (running_.size() == options_.max_batch) return;
    if (step.plan.tokens.size() >= options_.step_tokens) return;
    const SequenceId id = *next++;
    Sequence& sequence = sequences_.at(id);
    if (sequence.pending > 0) return;  // paused before its id was delivered: try the next time
    if (waits(sequence)) continue;
    const PrefixTree::Match known = reuse(sequence);
    if (sequence.wait) continue;
    const std::uint32_t length = sequence.length();
    if (running_.empty() ? !make_room_for(id, length) : !have_room_for(lacking(sequence))) {
      sequence.pages.clear();
      return;
    }
    const bool covered = cover(sequence, length);
    assert(covered);
    if (!covered) return;
    start(step, id, known);
  }
}

// Starts a sequence that holds pages for its tokens, after the known ones. Promises the pages that
// it will write to other sequences with the same beginning.
void Scheduler::start(PlannedStep& step, SequenceId id, const PrefixTree::Match& known) {
  Sequence& sequence = sequences_.at(id);
  sequence.slot = take_slot();
  sequence.admission = ++admissions_;
  waiting_.erase(id);
  running_.insert(id);
  sequence.computed = static_cast<std::uint32_t>(known.pages.size()) * pool_->page_tokens();
  // A page is copied only for a row of this step, which fails if the step does. A sequence gets no
  // row if only its last token is left and the step has no output for it; then it computes the
  // tokens that it would have copied.
  if (known.shared_tokens >= least_copied_tokens) {
    sequence.computed += known.shared_tokens;
    if (chunk_size(options_, step, sequence) > 0) {
      step.plan.copies.push_back({known.shared_page, sequence.pages.pages()[known.pages.size()]});
    } else {
      sequence.computed -= known.shared_tokens;
    }
  }
  sequence.written = sequence.computed;
  sequence.promised = tree_.promise(sequence.space, sequence.tokens, sequence.pages, id);
  sequence.promised_at = static_cast<std::uint32_t>(sequence.tokens.size() / pool_->page_tokens() -
                                                    sequence.promised.size());
  if (stored(sequence) && !known.pages.empty()) {
    options_.store->offer(std::span<const TokenId>(sequence.tokens).first(sequence.computed));
  }
  plan_chunk(step, id, sequence);
}

// The number of pages that a sequence lacks for its forecast.
std::uint64_t Scheduler::lacking(const Sequence& sequence) const {
  const std::uint32_t ahead = lengths_.ahead(sequence.drawn());
  const std::uint32_t pages = pool_->pages_for(sequence.forecast(ahead));
  return pages - std::min(pages, sequence.pages.size());
}

// Whether the pool has so many pages beyond the forecasts of all running sequences.
bool Scheduler::have_room_for(std::uint64_t pages) const {
  for (const SequenceId id : running_) pages += lacking(sequences_.at(id));
  return pages <= std::uint64_t{pool_->available()} + pool_->idle();
}

// The number of known pages of a sequence that rows hold which would not be paused for it. Known
// pages that only other rows hold, or none, count as new pages: once they are shared, pausing those
// rows does not free them.
std::uint64_t Scheduler::held_by_urgent(SequenceId id, const Sequence& sequence) {
  if (sequence.scores_prompt()) return 0;
  const auto tokens = std::span<const TokenId>(sequence.tokens).first(sequence.tokens.size() - 1);
  const std::vector<PageId> known = tree_.find(sequence.space, tokens).pages;
  std::uint64_t held = 0;
  for (const SequenceId other : running_) {
    if (priority_of(other) > priority_of(id)) break;
    const auto differs = std::ranges::mismatch(known, sequences_.at(other).pages.pages()).in1;
    held = std::max(held, static_cast<std::uint64_t>(differs - known.begin()));
  }
  return held;
}

// Whether so many rows and pages would be free if all less urgent sequences were paused.
bool Scheduler::could_make_room(std::uint64_t priority, std::uint64_t rows,
                                std::uint64_t pages) const {
  std::uint64_t room = std::uint64_t{pool_->available()} + pool_->idle();
  std::vector<bool> counted(pool_->total());  // urgent ones come first: pages they share stay
  for (const SequenceId id : running_) {
    const Sequence& sequence = sequences_.at(id);
    const bool stays = priority_of(id) <= priority;
    for (const PageId page : sequence.pages.pages()) {
      room += stays || counted[page] ? 0 : 1;
      counted[page] = true;
    }
    rows += stays ? 1 : 0;
    pages += stays ? lacking(sequence) : 0;
  }
  return rows <= options_.max_batch && pages <= room;
}

// Makes the sequence hold `tokens` positions, and evicts pages that only the tree holds if needed.
bool Scheduler::cover(Sequence& sequence, std::uint64_t tokens) {
  const std::uint32_t pages = pool_->pages_for(tokens);
  const std::uint32_t lacking = pages - std::min(pages, sequence.pages.size());
  if (lacking > pool_->available()) tree_.evict(lacking - pool_->available());
  return sequence.pages.cover(tokens);
}

// Makes the sequence hold `tokens` positions, and pauses sequences after it if needed, the last one
// first.
bool Scheduler::make_room_for(SequenceId id, std::uint64_t tokens) {
  Sequence& sequence = sequences_.at(id);
  while (!cover(sequence, tokens)) {
    if (running_.empty() || *running_.rbegin() <= id) return false;
    pause(*running_.rbegin());
  }
  return true;
}

void Scheduler::pause(SequenceId id) {
  Sequence& sequence = sequences_.at(id);
  leave_pages(sequence);
  used_slots_.erase(sequence.slot);
  sequence.slot = no_slot;
  running_.erase(id);
  waiting_.insert(id);
  ++pauses_;
}

std::uint32_t Scheduler::take_slot() {
  std::uint32_t slot = 0;
  for (const std::uint32_t used : used_slots_) {
    if (used != slot) break;
    ++slot;
  }
  used_slots_.insert(slot);
  return slot;
}

}  // namespace millrace::engine
