#include "engine/core/scheduler/sequence.hpp"

namespace millrace::engine {
namespace {

// The logits at position p score the prompt's token p + 1, or draw token p + 1.
void append_outputs(PlannedStep& step, SequenceId id, Sequence& sequence, std::uint32_t first,
                    std::uint32_t count) {
  const auto append = [&](std::uint32_t offset, OutputKind kind) {
    step.plan.outputs.push_back({offset, kind});
    step.outputs.push_back({id, kind, first + offset + 1, sequence.slot});
  };
  if (sequence.prompt_logprobs) {
    const std::uint32_t end = std::min(first + count + 1, sequence.prompt_tokens);
    for (std::uint32_t at = std::max(sequence.scored, first + 1); at < end; ++at) {
      append(at - 1 - first, OutputKind::prompt_logprob);
    }
    sequence.scored = std::max(sequence.scored, end);
  }
  if (sequence.computed == sequence.length() && sequence.draws()) {
    append(count - 1, OutputKind::logits);
    ++sequence.pending;
  }
}

// Appends a row's table of a windowed group, up to page `end`.
void append_window(StepPlan& plan, const PageTable& table, std::uint32_t end) {
  const auto offset = static_cast<std::uint32_t>(plan.pages.size());
  const auto pages = table.pages().first(end - table.first());
  plan.windowed.push_back({offset, table.first(), static_cast<std::uint32_t>(pages.size())});
  plan.pages.insert(plan.pages.end(), pages.begin(), pages.end());
}

}  // namespace

std::uint32_t chunk_size(const SchedulerOptions& options, const PlannedStep& step,
                         const Sequence& sequence) {
  const auto tokens = static_cast<std::uint32_t>(step.plan.tokens.size());
  const auto outputs = static_cast<std::uint32_t>(step.outputs.size());
  const std::uint32_t budget = options.step_tokens - std::min(options.step_tokens, tokens);
  const std::uint32_t room = options.step_outputs - std::min(options.step_outputs, outputs);
  const std::uint32_t remaining = sequence.remaining();
  const std::uint32_t to_kept = sequence.next_kept() - sequence.computed;
  const std::uint32_t count = std::min({remaining, to_kept, options.prefill_chunk, budget});
  if (sequence.scores_prompt()) return std::min(count, room);
  // Only the last token has an output; without room for it, leave that token to a later step.
  return count == remaining && room == 0 ? count - 1 : count;
}

void append_row(PlannedStep& step, SequenceId id, Sequence& sequence, std::uint32_t count,
                const CachePools& pools) {
  PlanRow row;
  row.sequence = id;
  row.slot = sequence.slot;
  row.first_position = sequence.computed;
  row.count = count;
  row.token_offset = static_cast<std::uint32_t>(step.plan.tokens.size());
  for (std::uint32_t i = 0; i < count; ++i) {
    const std::uint32_t at = sequence.computed + i;
    step.plan.tokens.push_back(at < sequence.tokens.size() ? sequence.tokens[at] : 0);
  }
  if (sequence.pending > 0) row.device_slot = sequence.slot;
  row.page_offset = static_cast<std::uint32_t>(step.plan.pages.size());
  row.page_count = pools[0].pages_for(std::uint64_t{sequence.computed} + count);
  const auto pages = sequence.pages[0].pages().first(row.page_count);
  step.plan.pages.insert(step.plan.pages.end(), pages.begin(), pages.end());
  for (std::size_t group = 1; group < pools.groups(); ++group) {
    append_window(step.plan, sequence.pages[group], row.page_count);
  }
  row.state_from = sequence.pages.states().from();
  row.state_to = sequence.pages.states().to();
  sequence.pages.states().advance();

  const std::uint32_t first = sequence.computed;
  sequence.computed += count;
  row.output_offset = static_cast<std::uint32_t>(step.outputs.size());
  append_outputs(step, id, sequence, first, count);
  row.output_count = static_cast<std::uint32_t>(step.outputs.size()) - row.output_offset;
  step.plan.rows.push_back(row);
  step.admissions.push_back(sequence.admission);
  if (sequence.max_tokens == 0 && sequence.computed >= sequence.prompt_tokens) {
    step.computed.push_back(id);
  }
}

}  // namespace millrace::engine
