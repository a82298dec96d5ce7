#pragma once
// A request from its acceptance to its result: its samples, their texts and logprobs, its times.
// The engine loop gives it what the sampler drew; it knows no device. Thread safety: one owner.
#include <cstdint>
#include <iosfwd>
#include <optional>
#include <vector>

#include "engine/core/request/prepare.hpp"
#include "engine/core/sampler/sampler.hpp"
#include "engine/core/scheduler/scheduler.hpp"
#include "engine/core/stop/reasoning_budget.hpp"
#include "engine/core/stop/stop_machine.hpp"
#include "engine/core/tokenizer/stream_decoder.hpp"

namespace millrace::engine {

class ActiveRequest {
 public:
  // `first` is the scheduler's id of sample 0; the others follow.
  ActiveRequest(PreparedRequest request, SequenceId first, const Tokenizer& tokenizer,
                std::int64_t now_us);

  const PreparedRequest& request() const { return request_; }
  std::uint32_t sequences() const { return request_.n > 0 ? request_.n : 1; }
  SequenceId first_sequence() const { return first_; }
  SequenceId sequence_of(std::uint32_t sample) const { return first_ + sample; }

  // Whether the tokens before an output decide its task, so that task_for() needs all of them.
  bool decides() const { return request_.rules && request_.rules->reasoning_limit; }
  // Returns the sampler's task for one output of a sample. The task points into this object.
  SampleTask task_for(std::uint32_t sample, const PlannedOutput& output) const;

  bool begun() const { return started_us_.has_value(); }  // a step had a row of a sample
  // Says that a step has a row of the sample, from position `first` on. Returns true for the
  // sample's first row if that row starts after tokens that the prefix tree knew. Calls for later
  // rows change nothing.
  bool started(std::int64_t now_us, std::uint32_t sample, std::uint32_t first);
  // Returns how many of the prompt's tokens up to `end` are counted for the first time. Tokens that
  // a paused sequence computes again, or that samples share, count once.
  std::uint32_t count_prompt(std::uint32_t end);
  // Since the sample's last token; none before its first. Call it once for each token.
  std::optional<std::int64_t> token_gap_us(std::uint32_t sample, std::int64_t now_us);
  // Gives the sample its next token. Returns true if the token ends the sample. Errors:
  // invalid_token, from the decoder.
  Result<bool> take_token(std::uint32_t sample, const Sampled& sampled, std::int64_t now_us);
  // Returns what the sample gained since the last call. The call after the sample's end returns
  // all that is left.
  Partial take_partial(std::uint32_t sample);
  void take_prompt_logprob(const Sampled& sampled);
  void prompt_computed() { prompt_computed_ = true; }  // ends a Task::score
  const Choice& choice(std::uint32_t sample) const { return samples_[sample].choice; }
  bool sample_ended(std::uint32_t sample) const { return samples_[sample].ended; }
  bool done() const;
  std::uint64_t generated() const;
  void dump(std::ostream& out) const;  // all state that steps have changed, as text

  // Moves the result out; do not use the object afterwards. Samples that have not ended are
  // `cancelled`. The caller adds the facts about the engine.
  GenerationResult finish(std::int64_t now_us);

 private:
  struct Sample {
    StopMachine stop;
    std::optional<ReasoningBudget> budget;
    StreamDecoder decoder;
    Choice choice;
    bool started = false;
    bool ended = false;
    std::optional<std::int64_t> token_us{};  // when its last token came
    // Lengths that earlier Partials have already told.
    std::size_t told_tokens = 0, told_text = 0, told_reasoning = 0, told_calls = 0;
  };
  void end_sample(Sample& sample, FinishReason reason);

  PreparedRequest request_;
  SequenceId first_;
  std::vector<Sample> samples_;
  TokenLogprobs prompt_logprobs_;
  std::uint32_t cached_ = 0;  // prompt tokens that sample 0 found in the prefix tree
  bool prompt_computed_ = false;
  std::uint32_t prompt_counted_ = 0;
  std::int64_t accepted_us_;
  std::optional<std::int64_t> started_us_, first_token_us_;
};

}  // namespace millrace::engine
