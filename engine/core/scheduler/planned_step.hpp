#pragma once
// What the scheduler is told and what it says: its limits, the sequences it is given, the step it
// plans. Thread safety: plain values.
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
  std::uint32_t max_batch = 64;        // sequences running at once; also the number of device slots
  std::uint32_t step_tokens = 512;     // tokens in one step; at least max_batch
  std::uint32_t prefill_chunk = 256;   // tokens of one sequence in one step
  std::uint32_t step_outputs = 512;    // rows of the logits buffer; at least max_batch
  std::uint32_t forecast_tokens = 64;  // that a sequence is taken to draw while none has ended
  // Whether requests read each other's pages and leave theirs behind; the samples of one request
  // share its prompt in any case. The fingerprint names the pages.
  bool prefix_cache = false;
  std::string fingerprint = {};
  PageStore* store = nullptr;  // may know more of all requests' pages than the tree
};

// Never used twice. The smaller one is served first: it begins with the priority, then counts.
using SequenceId = std::uint64_t;

struct SequenceSpec {
  Tokens prompt;                 // not empty
  std::uint32_t max_tokens = 0;  // tokens to draw; 0: only the prompt is computed
  bool prompt_logprobs =
      false;  // every position of the prompt is computed, whatever is known of it
  std::uint32_t priority = limits::priority_default;  // 0 is served first
  std::vector<Checkpoint> checkpoints = {};           // of the prompt
};

// One entry for each StepPlan::outputs, in that order.
struct PlannedOutput {
  SequenceId sequence = 0;
  OutputKind kind = OutputKind::logits;  // logits: draw a token
  std::uint32_t position = 0;            // of the token to draw, or of the prompt token to judge
  std::uint32_t slot = 0;                // device slot that receives a drawn id
};

struct PlannedStep {
  StepPlan plan;
  std::vector<PlannedOutput> outputs;
  std::vector<SequenceId> computed;  // sequences with max_tokens 0 whose prompt ends in this step
  // Of each row of the plan: when its sequence was admitted. Paused since, it has other pages.
  std::vector<std::uint64_t> admissions;
  void clear() {
    plan.clear();
    outputs.clear();
    computed.clear();
    admissions.clear();
  }
};

}  // namespace millrace::engine
