#pragma once
// A request from its acceptance to its result: its samples, their texts and logprobs, its times.
// Fed with what the sampler drew; knows nothing of devices and plans. Thread safety: one owner.
#include <cstdint>
#include <iosfwd>
#include <optional>
#include <vector>

#include "engine/core/request/prepare.hpp"
#include "engine/core/sampler/sampler.hpp"
#include "engine/core/scheduler/scheduler.hpp"
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

  // What the sampler shall do for an output of this request's sample. The task points into this
  // object.
  SampleTask task_for(std::uint32_t sample, const PlannedOutput& output) const;

  // A row of a sample is planned, from position `first` on. True when it is the sample's first row
  // and starts behind tokens that the prefix tree knew; other calls change nothing.
  bool started(std::int64_t now_us, std::uint32_t sample, std::uint32_t first);
  // How many of the prompt's tokens up to `end` no step has computed before: a pause computes some
  // again, and samples share them.
  std::uint32_t count_prompt(std::uint32_t end);
  // A token for a sample; true when that ends the sample. Errors: internal, from the decoder.
  Result<bool> take_token(std::uint32_t sample, const Sampled& sampled, std::int64_t now_us);
  // What the sample gained since the last call; the last one, after its end, gives all that is
  // left.
  Partial take_partial(std::uint32_t sample);
  void take_prompt_logprob(const Sampled& sampled);
  void prompt_computed() { prompt_computed_ = true; }  // Task::score: nothing more comes
  const Choice& choice(std::uint32_t sample) const { return samples_[sample].choice; }
  bool sample_ended(std::uint32_t sample) const { return samples_[sample].ended; }
  bool done() const;
  std::uint64_t generated() const;
  void dump(std::ostream& out) const;  // all that its steps have changed, as text

  // The result; samples that have not ended are `cancelled`. Times and counts are filled, the
  // engine's own settings are the caller's. The object is spent afterwards.
  GenerationResult finish(std::int64_t now_us);

 private:
  struct Sample {
    StopMachine stop;
    StreamDecoder decoder;
    Choice choice;
    bool started = false;
    bool ended = false;
    // How much of it Partials have told already.
    std::size_t told_tokens = 0, told_text = 0, told_reasoning = 0, told_calls = 0;
  };
  void end_sample(Sample& sample, FinishReason reason);

  PreparedRequest request_;
  SequenceId first_;
  std::vector<Sample> samples_;
  TokenLogprobs prompt_logprobs_;
  std::uint32_t cached_ = 0;  // tokens of the prompt that sample 0 did not compute
  bool prompt_computed_ = false;
  std::uint32_t prompt_counted_ = 0;
  std::int64_t accepted_us_;
  std::optional<std::int64_t> started_us_, first_token_us_;
};

}  // namespace millrace::engine
