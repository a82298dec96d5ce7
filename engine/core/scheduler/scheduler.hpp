#pragma once
// Which tokens of which sequences the next step computes. Host only, without clock or device: a
// pure function of what was added, delivered and finished, in that order.
//
//   plan() ──▶ StepPlan + PlannedOutputs ──▶ model, sampler ──▶ deliver(sequence, id) per draw
//
// A step is every decoding row first, then prefill chunks up to the token budget. Sequences stand
// in one order, by priority and then by age; new ones are admitted in it while pages with room to
// grow are free. Under page pressure the last in that order is paused, and so is a less urgent one
// where a more urgent one waits for a row: it gives its pages back, keeps its tokens, waits in its
// old place, and is computed again later. Tokens and logprob bits do not depend on any of this
// (DESIGN section 6).
//
// Planning may run one step ahead of delivery: a drawn token that is still on the device is
// `pending`, its row names the device slot instead of an id. Thread safety: one owner thread.
#include <cstdint>
#include <limits>
#include <map>
#include <set>
#include <vector>

#include "engine/core/kv/page_pool.hpp"
#include "engine/core/model/plan.hpp"
#include "schemas/base/error.hpp"
#include "schemas/base/generation.hpp"
#include "schemas/base/limits.hpp"

namespace millrace::engine {

struct SchedulerOptions {
  std::uint32_t max_batch = 64;        // sequences running at once; also the number of device slots
  std::uint32_t step_tokens = 512;     // tokens in one step; at least max_batch
  std::uint32_t prefill_chunk = 256;   // tokens of one sequence in one step
  std::uint32_t step_outputs = 512;    // rows of the logits buffer; at least max_batch
  std::uint32_t forecast_tokens = 64;  // room to grow that admission keeps free for each sequence
};

// Never used twice. The smaller one is served first: it begins with the priority, then counts.
using SequenceId = std::uint64_t;

struct SequenceSpec {
  Tokens prompt;                 // not empty
  std::uint32_t max_tokens = 0;  // tokens to draw; 0: only the prompt is computed
  bool prompt_logprobs = false;
  std::uint32_t priority = limits::priority_default;  // 0 is served first
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
  void clear();
};

class Scheduler {
 public:
  Scheduler(const SchedulerOptions& options, PagePool& pool) : options_(options), pool_(&pool) {}

  // Whether a sequence can ever run: `kv_exceeded`, with the numbers, when the whole pool is too
  // small for it.
  static Status fits(const PagePool& pool, std::uint64_t prompt_tokens, std::uint64_t max_tokens);

  // Adds a sequence that fits, with `siblings` more of the same prompt that share its whole prompt
  // pages once they are computed. Returns the first id; siblings take the ids after it.
  SequenceId add(const SequenceSpec& spec, std::uint32_t siblings = 0);
  // The id drawn for the sequence by the oldest step not yet delivered. Unknown ones are ignored.
  void deliver(SequenceId id, TokenId token);
  // Ends a sequence at any stage and frees what it holds. Unknown ones are ignored.
  void finish(SequenceId id);

  // Plans the next step; false when no row can be planned now.
  bool plan(PlannedStep& step);
  // A smaller token budget keeps steps short; never below max_batch.
  void set_step_tokens(std::uint32_t tokens);

  std::uint32_t waiting() const;
  std::uint32_t running() const { return static_cast<std::uint32_t>(running_.size()); }
  std::uint64_t pauses() const { return pauses_; }

 private:
  struct Sequence {
    Tokens tokens;  // the prompt and what was delivered
    std::uint32_t prompt_tokens = 0;
    std::uint32_t max_tokens = 0;
    std::uint32_t pending = 0;   // drawn on the device, not delivered
    std::uint32_t computed = 0;  // positions whose keys and values are written or under way
    std::uint32_t judged = 1;    // prompt positions whose logprob is taken or under way
    std::uint32_t slot = no_slot;
    std::uint32_t siblings = 0;  // still waiting for this one's prompt
    bool prompt_logprobs = false;
    PageTable pages;

    explicit Sequence(PagePool& pool) : pages(pool) {}
    std::uint32_t length() const { return static_cast<std::uint32_t>(tokens.size()) + pending; }
    std::uint32_t remaining() const { return length() - computed; }
    std::uint32_t drawn() const { return length() - prompt_tokens; }
    bool draws() const { return drawn() < max_tokens; }
    std::uint64_t forecast(std::uint32_t tokens_ahead) const;
  };

  void make_way();
  void plan_decodes(PlannedStep& step);
  void plan_prefills(PlannedStep& step);
  void admit(PlannedStep& step);
  std::uint64_t lacking(const Sequence& sequence) const;
  bool have_room_for(std::uint64_t pages) const;
  bool make_room_for(SequenceId id, std::uint64_t tokens);
  void pause(SequenceId id);
  void plan_chunk(PlannedStep& step, SequenceId id, Sequence& sequence);
  std::uint32_t chunk_size(const PlannedStep& step, const Sequence& sequence) const;
  void append_row(PlannedStep& step, SequenceId id, Sequence& sequence, std::uint32_t count);
  void append_outputs(PlannedStep& step, SequenceId id, Sequence& sequence, std::uint32_t first,
                      std::uint32_t count);
  void release_siblings(SequenceId id, Sequence& sequence);
  std::uint32_t take_slot();

  SchedulerOptions options_;
  PagePool* pool_;
  std::map<SequenceId, Sequence> sequences_;
  std::set<SequenceId> running_, waiting_;  // first served first; siblings that wait are in neither
  std::set<std::uint32_t> used_slots_;
  // Sequences whose prompt's last page the step before wrote: no row reads it in that same step.
  std::vector<SequenceId> prompt_computed_;
  SequenceId next_id_ = 0;
  std::uint64_t pauses_ = 0;
};

}  // namespace millrace::engine
