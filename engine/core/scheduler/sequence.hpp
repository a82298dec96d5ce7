#pragma once
// One sequence as the scheduler sees it, and its rows of a step. Thread safety: one owner thread.
#include <algorithm>
#include <optional>
#include <span>
#include <vector>

#include "engine/core/kv/page_pool.hpp"
#include "engine/core/kv/prefix_tree.hpp"
#include "engine/core/scheduler/planned_step.hpp"

namespace millrace::engine {

struct Sequence {
  Tokens tokens;  // the prompt and what was delivered
  std::uint32_t prompt_tokens = 0;
  std::uint32_t max_tokens = 0;
  std::uint32_t pending = 0;   // drawn on the device, not delivered
  std::uint32_t computed = 0;  // positions whose keys and values are written or under way
  std::uint32_t written = 0;   // positions of steps that have come back
  std::uint32_t judged = 1;    // prompt positions whose logprob is taken or under way
  std::uint32_t slot = no_slot;
  bool prompt_logprobs = false;
  std::vector<Checkpoint> checkpoints;

  // Space before pages and promises: what it knows goes when its last sequence goes.
  PrefixTree::Space space;
  PageTable pages;
  std::vector<PrefixTree::Node*> promised;  // pages that others may wait for, ...
  std::uint32_t fulfilled = 0;              // ... of which so many are written,
  std::uint32_t promised_at = 0;            // the first one being this page of the table
  std::uint64_t admission = 0;              // counts all admissions, of all sequences
  struct Wait {
    SequenceId writer = 0;
    std::uint64_t admission = 0;  // the writer's
    std::uint32_t tokens = 0;     // that it shall have written
  };
  std::optional<Wait> wait;
  bool restored = false;  // the store was asked for its beginning

  Sequence(PagePool& pool, PrefixTree::Space known) : space(std::move(known)), pages(pool) {}

  std::uint32_t length() const { return static_cast<std::uint32_t>(tokens.size()) + pending; }
  std::uint32_t remaining() const { return length() - computed; }
  std::uint32_t drawn() const { return length() - prompt_tokens; }
  bool draws() const { return drawn() < max_tokens; }
  // One token to compute and, unless only the prompt is wanted, one to draw.
  bool decodes() const { return remaining() == 1 && (max_tokens == 0 || draws()); }
  bool judges() const { return prompt_logprobs && judged < prompt_tokens; }
  // Positions to hold once `tokens_ahead` more tokens are drawn, as far as it may go. The last
  // drawn token is never computed.
  std::uint64_t forecast(std::uint32_t tokens_ahead) const {
    const std::uint32_t left = max_tokens - std::min(max_tokens, drawn());
    const std::uint32_t ahead = std::min(left, tokens_ahead);
    return static_cast<std::uint64_t>(length()) + ahead - (ahead > 0 ? 1 : 0);
  }
};

// How many tokens of a sequence the step still takes.
std::uint32_t chunk_size(const SchedulerOptions& options, const PlannedStep& step,
                         const Sequence& sequence);

// The sequence's next `count` tokens as a row of the step, with the outputs that they give.
void append_row(PlannedStep& step, SequenceId id, Sequence& sequence, std::uint32_t count,
                const PagePool& pool);

}  // namespace millrace::engine
