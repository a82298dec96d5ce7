#pragma once
// The scheduler's inputs and outputs: its options, the sequences it is given, the step it plans.
// Thread safety: plain values.
#include <cstdint>
#include <string>
#include <vector>

#include "engine/core/kv/page_store.hpp"
#include "engine/core/kv/prefix_tree.hpp"
#include "engine/core/model/plan.hpp"
#include "schemas/base/generation.hpp"
#include "schemas/base/limits.hpp"

namespace millrace::engine {

struct SchedulerOptions {
  std::uint32_t max_batch = 64;     // sequences running at once; also the number of device slots
  std::uint32_t step_tokens = 512;  // most tokens in one step; at least max_batch
  // What is left of a step for prompts beside the rows that decode, however small its budget is.
  std::uint32_t least_prefill_tokens = 32;
  std::uint32_t prefill_chunk = 256;   // tokens of one sequence in one step
  std::uint32_t step_outputs = 512;    // rows of the logits buffer; at least max_batch
  std::uint32_t forecast_tokens = 64;  // forecast of a sequence's length before any has ended
  // Whether requests reuse each other's pages. The samples of one request share its prompt in any
  // case. `fingerprint` names the space of the tree that they share.
  bool prefix_cache = false;
  std::string fingerprint = {};
  PageStore* store = nullptr;  // a slower memory behind the tree; may be null
};

// An id is never used twice. Its top bits are the priority, the rest counts, so the smaller id is
// served first.
using SequenceId = std::uint64_t;
inline constexpr std::uint32_t priority_shift = 56;  // the priority's place in an id
inline std::uint64_t priority_of(SequenceId id) {
  return id >> priority_shift;
}

struct SequenceSpec {
  Tokens prompt;                 // not empty
  std::uint32_t max_tokens = 0;  // tokens to draw; 0: only the prompt is computed
  bool prompt_logprobs = false;  // computes every position of the prompt, without known pages
  std::uint32_t priority = limits::priority_default;  // 0 is served first
  std::vector<Checkpoint> checkpoints = {};           // of the prompt
};

// The meaning of one entry of StepPlan::outputs, in the same order.
struct PlannedOutput {
  SequenceId sequence = 0;
  OutputKind kind = OutputKind::logits;  // logits: draw a token
  std::uint32_t position = 0;            // of the token to draw, or of the prompt token to score
  std::uint32_t slot = 0;                // device slot that receives a drawn id
};

struct PlannedStep {
  StepPlan plan;
  std::vector<PlannedOutput> outputs;
  std::vector<SequenceId> computed;  // sequences with max_tokens 0 whose prompt ends in this step
  // For each row of the plan, the admission of its sequence. A sequence that was paused since has
  // another admission and other pages.
  std::vector<std::uint64_t> admissions;
  void clear() {
    plan.clear();
    outputs.clear();
    computed.clear();
    admissions.clear();
  }
};

}  // namespace millrace::engine
