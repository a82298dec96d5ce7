#pragma once
// The scheduler's record of a sequence, and its rows of a step. Thread safety: one owner thread.
#include <algorithm>
#include <optional>
#include <set>
#include <span>
#include <vector>

#include "engine/core/kv/cache_pools.hpp"
#include "engine/core/kv/prefix_tree.hpp"
#include "engine/core/scheduler/planned_step.hpp"

namespace millrace::engine {

struct Sequence {
  Tokens tokens;  // the prompt and the delivered tokens
  std::uint32_t prompt_tokens = 0;
  std::uint32_t max_tokens = 0;
  std::uint32_t pending = 0;   // tokens drawn on the device and not delivered
  std::uint32_t computed = 0;  // positions whose keys and values are written or planned
  std::uint32_t written = 0;   // positions of steps that have come back
  std::uint32_t scored = 1;    // prompt positions whose logprob is computed or planned
  std::uint32_t slot = no_slot;
  bool prompt_logprobs = false;
  std::vector<Checkpoint> checkpoints;

  // The space is declared before pages and promises so that it is destroyed after them.
  PrefixTree::Space space;
  SequencePages pages;
  std::vector<PrefixTree::Node*> promised;  // pages for which others may wait
  std::uint32_t fulfilled = 0;              // number of promised pages that are written
  std::uint32_t promised_at = 0;            // index in the table of the first promised page
  bool refills = false;                     // the tree lacks only pages of windowed groups
  std::uint64_t admission = 0;              // number of the admission, over all sequences
  struct Wait {
    SequenceId writer = 0;
    std::uint64_t admission = 0;  // the writer's admission
    std::uint32_t tokens = 0;     // wait until the writer has written so many
  };
  std::optional<Wait> wait;
  bool restored = false;  // the store was asked for the sequence's beginning
  // Of a model with states: borders of pages in the prompt after which the state is kept for
  // others.
  std::set<std::uint32_t> kept_positions;

  Sequence(CachePools& pools, PrefixTree::Space known) : space(std::move(known)), pages(pools) {}

  std::uint32_t length() const { return static_cast<std::uint32_t>(tokens.size()) + pending; }
  std::uint32_t remaining() const { return length() - computed; }
  std::uint32_t drawn() const { return length() - prompt_tokens; }
  bool draws() const { return drawn() < max_tokens; }
  // True if one token is left to compute and, unless only the prompt is wanted, one to draw.
  bool decodes() const { return remaining() == 1 && (max_tokens == 0 || draws()); }
  // The position from which a paused sequence goes on if the tree keeps its pages: the last token
  // is always computed, and whole pages only are kept.
  std::uint32_t resumes_at(std::uint32_t page_tokens) const {
    const auto known = static_cast<std::uint32_t>(tokens.size()) - 1;
    return std::min(written, known) / page_tokens * page_tokens;
  }
  // The next position whose state is kept, at which a row must end; none: the end of the tokens.
  std::uint32_t next_kept() const {
    const auto next = kept_positions.upper_bound(computed);
    return next == kept_positions.end() ? length() : *next;
  }
  bool scores_prompt() const { return prompt_logprobs && scored < prompt_tokens; }
  // The number of positions to hold when `tokens_ahead` more tokens are drawn, within max_tokens.
  // The last drawn token is never computed.
  std::uint64_t forecast(std::uint32_t tokens_ahead) const {
    const std::uint32_t left = max_tokens - std::min(max_tokens, drawn());
    const std::uint32_t ahead = std::min(left, tokens_ahead);
    return static_cast<std::uint64_t>(length()) + ahead - (ahead > 0 ? 1 : 0);
  }
};

// Returns how many tokens of a sequence the step can still take.
std::uint32_t chunk_size(const SchedulerOptions& options, const PlannedStep& step,
                         const Sequence& sequence);

// Appends the sequence's next `count` tokens to the step as a row, with their outputs.
void append_row(PlannedStep& step, SequenceId id, Sequence& sequence, std::uint32_t count,
                const CachePools& pools);

}  // namespace millrace::engine
