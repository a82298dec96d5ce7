#pragma once
// Draws tokens and gathers logprobs on the device; the logits never leave it. One task a row of
// logits: draw the next token of a sequence, or judge a given one (prompt logprobs). The drawn ids
// stay in a buffer of one id a slot, where the next step's rows find them before the host does.
//
//   MILLRACE_TRY(sampler->enqueue(model->logits(), model->logits_stride(), tasks, batch));
//   ... enqueue more ...
//   MILLRACE_TRY(sampler->wait(batch));  batch.row(i)
//
// What is drawn is the arg-max of logit / temperature + Gumbel noise over the survivors of, in this
// order: edits (LogitEdits has theirs), bans, temperature, top-k, typical, top-p, min-p, XTC. The
// noise of a token is a function of (seed; sample, position, id), so it depends on nothing else in
// the step. Ties go to the lowest id; top-k and top-p keep a beginning of the order (logit down, id
// up). Work that no task asks for is not done. A row with NaN or +infinity, or with nothing left to
// draw, is reported and draws nothing.
// Errors: device_error, out_of_memory, kernel_build. Thread safety: the device's owner thread.
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "engine/core/device/device.hpp"
#include "engine/core/sampler/state_store.hpp"
#include "schemas/base/error.hpp"
#include "schemas/base/generation.hpp"

namespace millrace::engine {

struct SampleTask {
  bool draw = true;    // false: judge `target`
  TokenId target = 0;  // a token id below the vocabulary
  std::uint32_t slot = 0;
  std::uint32_t position = 0;  // of the drawn token in its sequence
  std::uint32_t sample = 0;    // index among the request's n
  Sampling sampling;           // with its seed
  std::span<const TokenId> banned;
  std::uint64_t sequence = 0;           // whose draw this is; never used twice
  const LogitEdits* edits = nullptr;    // null: none
  RowHistory history;                   // for edits, see StateRequest
  std::span<const TokenId> listed;      // the logprobs of these as well, wherever one is given
  bool logprob = false;                 // of the drawn token; a judged one's is always given
  std::uint32_t top = 0;                // and of so many likeliest tokens, at most the vocabulary
  LogprobMode mode = LogprobMode::raw;  // of a drawn token; a judged one's is raw
};

enum class SampleFault : std::uint8_t { none, not_a_number, nothing_left };

// What was really computed for a row, for tests: bits.
inline constexpr std::uint32_t stage_sum = 1, stage_top = 2, stage_filter = 4, stage_noise = 8,
                               stage_edit = 16, stage_typical = 32, stage_xtc = 64,
                               stage_listed = 128;

struct Sampled {
  TokenId id = 0;
  SampleFault fault = SampleFault::none;
  float logprob = 0;  // NaN where it was not asked for
  std::uint32_t stages = 0;
  std::span<const std::uint32_t> top_ids;  // likeliest first
  std::span<const float> top_logprobs;
  std::span<const float> listed_logprobs;  // in the order of SampleTask::listed
};

// The results of one step. Its memory is written by the device until Sampler::wait.
class SampleBatch {
 public:
  std::size_t size() const { return top_offsets_.empty() ? 0 : top_offsets_.size() - 1; }
  Sampled row(std::size_t index) const;
  // Fills the batch by hand, for runners without a device; the rows' spans are copied.
  void assign(std::span<const Sampled> rows);

 private:
  friend class Sampler;
  std::vector<std::uint32_t> words_;
  std::vector<float> top_logprobs_, listed_logprobs_;
  std::vector<std::uint32_t> top_offsets_, listed_offsets_;
  std::uint32_t end_of_step_ = 0;  // read where there are no tasks; any value
  DeviceEvent arrived_;
};

class Sampler {
 public:
  // `slots` ids, and at most `rows` tasks in a step. `row_items`: work-items that share a row, a
  // power of two, 0 for what suits the device; results do not depend on it. More than one needs the
  // generic family.
  static Result<std::unique_ptr<Sampler>> create(Device& device, std::uint32_t vocabulary,
                                                 std::uint32_t slots, std::uint32_t rows,
                                                 std::uint32_t row_items = 0);

  const Buffer& ids() const { return ids_; }
  // Task i takes row i of the logits, which it may overwrite. `batch` must stay until `wait`, which
  // returns when all that was enqueued before is done, without tasks too.
  Status enqueue(const Buffer& logits, std::uint32_t stride, std::span<const SampleTask> tasks,
                 SampleBatch& batch);
  Status wait(SampleBatch& batch);
  const StateStore& states() const { return *states_; }

 private:
  Sampler(Device& device, std::uint32_t vocabulary)
      : device_(&device), vocabulary_(vocabulary), states_(std::make_unique<StateStore>(device)) {}
  Result<PlacedState> place(const SampleTask& task);
  Status enqueue_end(SampleBatch& batch);
  Status reserve(Buffer& buffer, std::uint64_t words, const char* what);

  Device* device_;
  std::uint32_t vocabulary_;
  std::uint32_t row_items_ = 0;
  Kernel kernel_;
  std::unique_ptr<StateStore> states_;
  Buffer ids_, tasks_, lists_, out_, bins_;
  std::vector<std::uint32_t> task_words_, list_words_;
};

}  // namespace millrace::engine
