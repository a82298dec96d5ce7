#include "engine/core/scheduler/scheduler.hpp"

#include <algorithm>
#include <cassert>
#include <string>

namespace millrace::engine {
namespace {

constexpr std::uint32_t priority_shift = 56;  // of a sequence's id

std::uint64_t priority_of(SequenceId id) {
  return id >> priority_shift;
}

}  // namespace

void PlannedStep::clear() {
  plan.clear();
  outputs.clear();
  computed.clear();
}

// Positions to hold once `tokens_ahead` more tokens are drawn, as far as it may go. The last drawn
// token is never computed.
std::uint64_t Scheduler::Sequence::forecast(std::uint32_t tokens_ahead) const {
  const std::uint32_t left = max_tokens - std::min(max_tokens, drawn());
  const std::uint32_t ahead = std::min(left, tokens_ahead);
  return static_cast<std::uint64_t>(length()) + ahead - (ahead > 0 ? 1 : 0);
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
  for (SequenceId id = first; id <= first + siblings; ++id) {
    Sequence& sequence = sequences_.try_emplace(id, *pool_).first->second;
    sequence.tokens = spec.prompt;
    sequence.prompt_tokens = static_cast<std::uint32_t>(spec.prompt.size());
    sequence.max_tokens = spec.max_tokens;
    sequence.prompt_logprobs = spec.prompt_logprobs && id == first;
  }
  sequences_.at(first).siblings = siblings;
  waiting_.insert(first);
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
  release_siblings(id, found->second);
  used_slots_.erase(found->second.slot);
  running_.erase(id);
  waiting_.erase(id);
  sequences_.erase(found);
}

void Scheduler::set_step_tokens(std::uint32_t tokens) {
  options_.step_tokens = std::max(tokens, options_.max_batch);
}

std::uint32_t Scheduler::waiting() const {
  return static_cast<std::uint32_t>(sequences_.size() - running_.size());
}

bool Scheduler::plan(PlannedStep& step) {
  step.clear();
  for (const SequenceId id : prompt_computed_) {
    const auto found = sequences_.find(id);
    if (found != sequences_.end()) release_siblings(id, found->second);
  }
  prompt_computed_.clear();
  make_way();
  plan_decodes(step);
  plan_prefills(step);
  admit(step);
  return !step.plan.rows.empty();
}

// Those that wait take the rows and pages of less urgent ones, the last in order first; as many as
// this step can begin. Only before anything is planned: a row of the step keeps its pages.
void Scheduler::make_way() {
  std::uint64_t rows = 0, pages = 0, tokens = 0;
  for (const SequenceId id : waiting_) {
    const auto urgent = [&] {
      return !running_.empty() && priority_of(*running_.rbegin()) > priority_of(id);
    };
    if (!urgent() || tokens >= options_.step_tokens) return;
    const Sequence& sequence = sequences_.at(id);
    rows += 1;
    pages += lacking(sequence);
    tokens += sequence.remaining();
    while (urgent() && (running_.size() + rows > options_.max_batch || !have_room_for(pages))) {
      pause(*running_.rbegin());
    }
  }
}

// Sequences with one token to compute. Growth happens here alone: a prompt's pages are all taken
// at admission. Those served first come first, so a victim of make_room_for is not planned yet.
void Scheduler::plan_decodes(PlannedStep& step) {
  const std::vector<SequenceId> order(running_.begin(), running_.end());
  for (const SequenceId id : order) {
    if (!running_.contains(id)) continue;  // paused for one before it
    Sequence& sequence = sequences_.at(id);
    if (sequence.remaining() != 1 || (sequence.max_tokens > 0 && !sequence.draws())) continue;
    if (make_room_for(id, sequence.length())) {
      append_row(step, id, sequence, 1);
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

void Scheduler::admit(PlannedStep& step) {
  while (!waiting_.empty() && running_.size() < options_.max_batch &&
         step.plan.tokens.size() < options_.step_tokens) {
    const SequenceId id = *waiting_.begin();
    Sequence& sequence = sequences_.at(id);
    if (sequence.pending > 0) return;  // paused with an id under way; it is there next time
    if (running_.empty() ? !make_room_for(id, sequence.length())
                         : !have_room_for(lacking(sequence))) {
      return;
    }
    const bool covered = sequence.pages.cover(sequence.length());
    assert(covered);
    if (!covered) return;
    sequence.slot = take_slot();
    waiting_.erase(id);
    running_.insert(id);
    plan_chunk(step, id, sequence);
  }
}

// Pages that a sequence lacks for what it is forecast to hold.
std::uint64_t Scheduler::lacking(const Sequence& sequence) const {
  const std::uint32_t pages = pool_->pages_for(sequence.forecast(options_.forecast_tokens));
  return pages - std::min(pages, sequence.pages.size());
}

// Whether so many pages are free beside the forecasts of all that run.
bool Scheduler::have_room_for(std::uint64_t pages) const {
  for (const SequenceId id : running_) pages += lacking(sequences_.at(id));
  return pages <= pool_->available();
}

// Covers `tokens` positions of a sequence, taking pages from those after it where it must: from the
// last first, be it running or waiting with shared pages.
bool Scheduler::make_room_for(SequenceId id, std::uint64_t tokens) {
  Sequence& sequence = sequences_.at(id);
  while (!sequence.pages.cover(tokens)) {
    const auto victim = std::find_if(sequences_.rbegin(), sequences_.rend(), [](const auto& entry) {
      return entry.second.pages.size() > 0;
    });
    if (victim == sequences_.rend() || victim->first <= id) return false;
    pause(victim->first);
  }
  return true;
}

void Scheduler::pause(SequenceId id) {
  Sequence& sequence = sequences_.at(id);
  sequence.pages.clear();
  sequence.computed = 0;
  if (running_.erase(id) == 0) return;  // it waited, holding shared pages
  used_slots_.erase(sequence.slot);
  sequence.slot = no_slot;
  waiting_.insert(id);
  ++pauses_;
}

void Scheduler::plan_chunk(PlannedStep& step, SequenceId id, Sequence& sequence) {
  const std::uint32_t count = chunk_size(step, sequence);
  if (count > 0) append_row(step, id, sequence, count);
}

std::uint32_t Scheduler::chunk_size(const PlannedStep& step, const Sequence& sequence) const {
  const auto tokens = static_cast<std::uint32_t>(step.plan.tokens.size());
  const auto outputs = static_cast<std::uint32_t>(step.outputs.size());
  const std::uint32_t budget = options_.step_tokens - std::min(options_.step_tokens, tokens);
  const std::uint32_t room = options_.step_outputs - std::min(options_.step_outputs, outputs);
  const std::uint32_t remaining = sequence.remaining();
  const std::uint32_t count = std::min({remaining, options_.prefill_chunk, budget});
  if (sequence.prompt_logprobs && sequence.judged < sequence.prompt_tokens) {
    return std::min(count, room);
  }
  // Only the last token has an output.
  return count == remaining && room == 0 ? count - 1 : count;
}

void Scheduler::append_row(PlannedStep& step, SequenceId id, Sequence& sequence,
                           std::uint32_t count) {
  PlanRow row;
  row.sequence = id;
  row.first_position = sequence.computed;
  row.count = count;
  row.token_offset = static_cast<std::uint32_t>(step.plan.tokens.size());
  for (std::uint32_t i = 0; i < count; ++i) {
    const std::uint32_t at = sequence.computed + i;
    step.plan.tokens.push_back(at < sequence.tokens.size() ? sequence.tokens[at] : 0);
  }
  if (sequence.pending > 0) row.device_slot = sequence.slot;
  row.page_offset = static_cast<std::uint32_t>(step.plan.pages.size());
  row.page_count = pool_->pages_for(std::uint64_t{sequence.computed} + count);
  const auto pages = sequence.pages.pages().first(row.page_count);
  step.plan.pages.insert(step.plan.pages.end(), pages.begin(), pages.end());

  const std::uint32_t first = sequence.computed;
  sequence.computed += count;
  row.output_offset = static_cast<std::uint32_t>(step.outputs.size());
  append_outputs(step, id, sequence, first, count);
  row.output_count = static_cast<std::uint32_t>(step.outputs.size()) - row.output_offset;
  step.plan.rows.push_back(row);

  if (sequence.computed < sequence.prompt_tokens) return;
  if (sequence.max_tokens == 0) step.computed.push_back(id);
  if (sequence.siblings > 0) prompt_computed_.push_back(id);
}

// The logits at position p judge the prompt's token p + 1, or draw the token p + 1.
void Scheduler::append_outputs(PlannedStep& step, SequenceId id, Sequence& sequence,
                               std::uint32_t first, std::uint32_t count) {
  const auto append = [&](std::uint32_t offset, OutputKind kind) {
    step.plan.outputs.push_back({offset, kind});
    step.outputs.push_back({id, kind, first + offset + 1, sequence.slot});
  };
  if (sequence.prompt_logprobs) {
    const std::uint32_t end = std::min(first + count + 1, sequence.prompt_tokens);
    for (std::uint32_t at = std::max(sequence.judged, first + 1); at < end; ++at) {
      append(at - 1 - first, OutputKind::prompt_logprob);
    }
    sequence.judged = std::max(sequence.judged, end);
  }
  if (sequence.computed == sequence.length() && sequence.draws()) {
    append(count - 1, OutputKind::logits);
    ++sequence.pending;
  }
}

// The siblings may start. While this sequence's prompt pages stand they share the whole ones; the
// last prompt token is always computed anew, for its logits.
void Scheduler::release_siblings(SequenceId id, Sequence& sequence) {
  const std::uint32_t page = pool_->page_tokens();
  const std::uint32_t whole = (sequence.prompt_tokens - 1) / page * page;
  const bool share = sequence.computed >= sequence.prompt_tokens;
  for (SequenceId other = id + 1; other <= id + sequence.siblings; ++other) {
    const auto found = sequences_.find(other);
    if (found == sequences_.end()) continue;  // finished while it waited
    if (share) {
      found->second.pages = sequence.pages.fork(whole);
      found->second.computed = whole;
    }
    waiting_.insert(other);
  }
  sequence.siblings = 0;
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
