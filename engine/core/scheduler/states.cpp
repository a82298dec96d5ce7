#include <algorithm>
#include <span>

#include "engine/core/scheduler/scheduler.hpp"

// Which states of recurrent layers the scheduler keeps for other sequences, and who waits for one.
namespace millrace::engine {
namespace {

bool begin_alike(const Sequence& a, const Sequence& b, std::uint32_t tokens) {
  const auto first = std::span<const TokenId>(a.tokens).first(tokens);
  return b.tokens.size() >= tokens && std::ranges::equal(first, std::span(b.tokens).first(tokens));
}

}  // namespace

// Chooses where the states of a sequence that starts are kept: at its checkpoints, and where the
// pages that the tree has of its path end, because then others have the same beginning. The state
// after the last token of a prompt is of no use: that token is always computed, for its logits.
void Scheduler::choose_kept(Sequence& sequence, const PrefixTree::Match& known) const {
  if (!pools_->has_states()) return;
  const std::uint32_t page = pools_->page_tokens();
  const std::uint32_t last = (sequence.prompt_tokens - 1) / page * page;
  const auto keep = [&](std::uint32_t position) {
    const std::uint32_t border = std::min(position / page * page, last);
    if (border > sequence.computed) sequence.kept_positions.insert(border);
  };
  for (const Checkpoint& checkpoint : sequence.checkpoints) keep(checkpoint.position);
  keep(known.written * page);
}

// Keeps the state after the row that was just planned, if it ends where one is to be kept. A page
// that was freed for a more urgent sequence is not for this.
void Scheduler::keep_state(Sequence& sequence) {
  if (made_way_ || !sequence.kept_positions.contains(sequence.computed)) return;
  PagePool& pool = *pools_->states();
  if (pool.available() == 0) tree_.evict(pools_->groups(), 1);
  sequence.pages.states().keep(sequence.computed / pools_->page_tokens() - 1);
}

// Looks for a running sequence that will compute more of this one's beginning than is known, and
// has not planned the place where the two part. If there is one, it keeps the state there, and this
// sequence waits for it. Returns whether it does.
bool Scheduler::ask_for_state(Sequence& sequence, const PrefixTree::Match& known) {
  const std::uint32_t page = pools_->page_tokens();
  const std::uint32_t end = (known.written + known.promised) * page;
  if (end <= known.pages.size() * page) return false;
  for (const SequenceId id : running_) {
    Sequence& writer = sequences_.at(id);
    if (writer.space != sequence.space || writer.prompt_tokens <= end) continue;
    const bool keeps = writer.kept_positions.contains(end) && writer.written < end;
    if (!keeps && writer.computed >= end) continue;
    if (!begin_alike(sequence, writer, end)) continue;
    writer.kept_positions.insert(end);
    sequence.wait = {id, writer.admission, end};
    return true;
  }
  return false;
}

}  // namespace millrace::engine
