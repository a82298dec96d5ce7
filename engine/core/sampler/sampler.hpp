#pragma once
// Draws tokens and gathers logprobs on the device; the logits never leave it. A task for each row
// of logits either draws the next token of a sequence, or scores a given token (prompt logprobs).
// The drawn ids stay in a buffer with one id for each slot, where the next step's rows read them
// before the host does.
//
//   MILLRACE_TRY(sampler->enqueue(model->logits(), model->logits_stride(), tasks, batch));
//   ... enqueue more ...
//   MILLRACE_TRY(sampler->wait(batch));  batch.row(i)
//
// The drawn token is the arg-max of logit / temperature + Gumbel noise over the tokens that
// survive, in this order: edits (LogitEdits has their order), bans, temperature, top-k, typical,
// top-p, min-p, XTC. The noise of a token is a function of (seed; sample, position, id), so it
// depends on nothing else in the step. Ties go to the lowest id; top-k and top-p keep the first
// tokens in the order of falling logit, then rising id. A forced token is drawn as if it were the
// only one there is, whatever edits, bans and filters say: its processed logprob is 0, its raw one
// the model's own. The kernel skips work that no task needs. A row with NaN or +infinity, or with
// no token left to draw, draws nothing and reports a fault. Errors: device_error, out_of_memory,
// kernel_build. Thread safety: the device's owner thread.
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "engine/core/device/device.hpp"
#include "engine/core/sampler/state_store.hpp"
#include "kernels/sampler/task.h"
#include "schemas/base/error.hpp"
#include "schemas/base/generation.hpp"

namespace millrace::engine {

struct SampleTask {
  bool draw = true;    // false: score `target`
  TokenId target = 0;  // a token id below the vocabulary
  std::uint32_t slot = 0;
  std::uint32_t position = 0;     // of the drawn token in its sequence
  std::uint32_t sample = 0;       // index among the request's n
  Sampling sampling;              // with its seed
  std::optional<TokenId> forced;  // below the vocabulary: what is drawn, see above
  std::span<const TokenId> banned;
  std::uint64_t sequence = 0;         // number of the sequence; never used twice
  const LogitEdits* edits = nullptr;  // null: none
  RowHistory history;                 // for edits, see StateRequest
  std::span<const TokenId> listed;    // tokens whose logprobs are given beside the row's own
  bool logprob = false;               // of the drawn token; a scored token's is always given
  std::uint32_t top = 0;              // number of likeliest tokens to give, at most the vocabulary
  LogprobMode mode = LogprobMode::raw;  // of a drawn token; a scored token's is raw
};

enum class SampleFault : std::uint8_t { none, not_a_number, nothing_left };

struct Sampled {
  TokenId id = 0;
  SampleFault fault = SampleFault::none;
  float logprob = 0;                       // NaN if it was not requested
  std::uint32_t stages = 0;                // the STAGE_ bits of kernels/sampler/task.h, for tests
  std::span<const std::uint32_t> top_ids;  // likeliest first
  std::span<const float> top_logprobs;
  std::span<const float> listed_logprobs;  // in the order of SampleTask::listed
};

// The results of one step. The device writes its memory until Sampler::wait returns.
class SampleBatch {
 public:
  std::size_t size() const {
    if (!parts_.empty()) return places_.size();
    return top_offsets_.empty() ? 0 : top_offsets_.size() - 1;
  }
  Sampled row(std::size_t index) const;
  // A batch of a step in parts, each sampled by itself: makes as many parts for so many rows, says
  // where a row of the whole is, and gives the batch of a part.
  void divide(std::size_t parts, std::size_t rows);
  void place(std::size_t row, std::size_t part, std::uint32_t row_of_part) {
    places_[row] = {part, row_of_part};
  }
  SampleBatch& part(std::size_t index) { return parts_[index]; }
  // Fills the batch without a device, for tests; copies the rows' spans.
  void assign(std::span<const Sampled> rows);

 private:
  friend class Sampler;
  std::vector<std::uint32_t> words_;
  std::vector<float> top_logprobs_, listed_logprobs_;
  std::vector<std::uint32_t> top_offsets_, listed_offsets_;
  std::uint32_t end_of_step_ = 0;  // a word that is read if there are no tasks; its value is unused
  DeviceEvent arrived_;
  std::vector<SampleBatch> parts_;  // then only they hold results
  std::vector<std::pair<std::size_t, std::uint32_t>> places_;
};

class Sampler {
 public:
  // For `slots` ids and at most `rows` tasks in a step. `row_items` is the number of work-items
  // that share a row, a power of two; 0 chooses by the device. Results do not depend on it. More
  // than one needs the generic family.
  static Result<std::unique_ptr<Sampler>> create(Device& device, std::uint32_t vocabulary,
                                                 std::uint32_t slots, std::uint32_t rows,
                                                 std::uint32_t row_items = 0);
  // The two steps of create(): memory, then the program, which may be announced before.
  static Result<std::unique_ptr<Sampler>> allocate(Device& device, std::uint32_t vocabulary,
                                                   std::uint32_t slots, std::uint32_t rows,
                                                   std::uint32_t row_items = 0);
  Status compile();

  const Buffer& ids() const { return ids_; }
  // Task i uses row i of the logits and may overwrite it. `batch` must stay valid until `wait`
  // returns, which is when everything enqueued before is done, even if there are no tasks.
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
  std::vector<kernels::TaskRecord> task_records_;
  std::vector<std::uint32_t> list_words_;
};

}  // namespace millrace::engine
