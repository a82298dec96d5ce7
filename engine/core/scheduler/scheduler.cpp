#include "engine/core/scheduler/scheduler.hpp"

#include <algorithm>
#include <cassert>
#include <span>
#include <string>

namespace millrace::engine {
namespace {

// When a sequence waits for another's pages, admission looks at so many behind it for one that can
// go ahead.
constexpr std::uint32_t look_ahead = 512;

// Fewer tokens of a partly known page are computed rather than copied, because that is faster.
constexpr std::uint32_t least_copied_tokens = 4;

}  // namespace

Scheduler::Scheduler(const SchedulerOptions& options, CachePools& pools)
    : options_(options),
      most_tokens_(options.step_tokens),
      wanted_tokens_(options.step_tokens),
      pools_(&pools),
      tree_(pools),
      lengths_(options.forecast_tokens) {
  assert(std::min(options.prefill_chunk, options.step_tokens) <= pools.row_tokens());
  if (options.prefix_cache) shared_ = tree_.open(options.fingerprint);
}

Status Scheduler::fits(const CachePools& pools, std::uint64_t prompt_tokens,
                       std::uint64_t max_tokens) {
  const std::uint64_t positions = prompt_tokens + max_tokens - (max_tokens > 0 ? 1 : 0);
  const std::uint64_t room = pools.most_positions();
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
    Sequence& sequence = sequences_.try_emplace(id, *pools_, space).first->second;
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
  wanted_tokens_ = std::min(tokens, most_tokens_);
}

// The budget of this step.
std::uint32_t Scheduler::budget() const {
  const auto decoding = std::ranges::count_if(
      running_, [this](SequenceId id) { return sequences_.at(id).decodes(); });
  const std::uint32_t least = static_cast<std::uint32_t>(decoding) + options_.least_prefill_tokens;
  return std::min(most_tokens_, std::max(wanted_tokens_, least));
}

std::uint32_t Scheduler::waiting() const {
  return static_cast<std::uint32_t>(waiting_.size());
}

bool Scheduler::plan(PlannedStep& step) {
  step.clear();
  options_.step_tokens = budget();
  const std::uint64_t pauses = pauses_;
  make_way();
  made_way_ = pauses_ > pauses;
  hold_pages();
  plan_decodes(step);
  plan_prefills(step);
  admit(step);
  return !step.plan.rows.empty();
}

// Pauses less urgent sequences, the last in order first, for as many waiting ones as this step can
// begin. This must come before anything is planned: a row of the step keeps its pages.
void Scheduler::make_way() {
  std::uint64_t rows = 0, tokens = 0;
  PageCounts pages(pools_->pools());
  for (const SequenceId id : waiting_) {
    const auto urgent = [&] {
      return !running_.empty() && priority_of(*running_.rbegin()) > priority_of(id);
    };
    if (!urgent() || tokens >= options_.step_tokens) return;
    Sequence& sequence = sequences_.at(id);
    if (waits(sequence)) continue;
    rows += 1;
    PageCounts more = lacking(sequence);
    more[0] -= std::min(more[0], held_by_urgent(id, sequence));
    for (std::size_t group = 0; group < pages.size(); ++group) pages[group] += more[group];
    tokens += sequence.remaining();
    if (!could_make_room(priority_of(id), rows, pages)) return;
    while (urgent() && (running_.size() + rows > options_.max_batch || !have_room_for(pages))) {
      pause(*running_.rbegin());
    }
  }
}

// Makes every running sequence that can go on hold the pages of its next row. In group 0 only
// decoding rows grow: all pages of a prompt are taken at admission. The loop is in order of
// service, and nothing is planned yet, so any sequence may be paused.
void Scheduler::hold_pages() {
  const std::vector<SequenceId> order(running_.begin(), running_.end());
  for (const SequenceId id : order) {
    if (!running_.contains(id)) continue;  // it was paused for one before it
    const Sequence& sequence = sequences_.at(id);
    if (!sequence.decodes() && sequence.remaining() < 2) continue;
    if (!make_room_for(id, sequence.computed)) pause(id);
  }
}

// Plans the sequences with one token to compute.
void Scheduler::plan_decodes(PlannedStep& step) {
  for (const SequenceId id : running_) {
    Sequence& sequence = sequences_.at(id);
    if (sequence.decodes()) append_row(step, id, sequence, 1, *pools_);
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
  if (count == 0) return;
  append_row(step, id, sequence, count, *pools_);
  keep_state(sequence);
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
    const auto whole = static_cast<std::uint32_t>(known.pages.size()) * pools_->page_tokens();
    const std::uint32_t from = whole + known.shared_tokens;
    if (running_.empty() ? !make_room_for(id, from) : !have_room_for(lacking(sequence))) {
      sequence.pages.clear();
      return;
    }
    const bool covered = cover(sequence, from);
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
  const auto whole = static_cast<std::uint32_t>(known.pages.size());
  sequence.computed = whole * pools_->page_tokens();
  // A page is copied only for a row of this step, which fails if the step does. A sequence gets no
  // row if only its last token is left and the step has no output for it; then it computes the
  // tokens that it would have copied.
  if (known.shared_tokens >= least_copied_tokens) {
    sequence.computed += known.shared_tokens;
    if (chunk_size(options_, step, sequence) > 0) {
      for (std::uint32_t group = 0; group < pools_->groups(); ++group) {
        step.plan.copies.push_back(
            {known.shared_pages[group], sequence.pages[group].at(whole), group});
      }
    } else {
      sequence.computed -= known.shared_tokens;
    }
  }
  sequence.written = sequence.computed;
  choose_kept(sequence, known);
  sequence.promised = tree_.promise(sequence.space, sequence.tokens, sequence.pages, id);
  sequence.promised_at = static_cast<std::uint32_t>(sequence.tokens.size() / pools_->page_tokens() -
                                                    sequence.promised.size());
  sequence.refills = pools_->pools() > 1 && sequence.promised_at > whole;
  if (stored(sequence) && !known.pages.empty()) {
    options_.store->offer(std::span<const TokenId>(sequence.tokens).first(sequence.computed));
  }
  plan_chunk(step, id, sequence);
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
