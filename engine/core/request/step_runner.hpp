#pragma once
// What the engine loop needs from device, model and sampler: a step in two calls. Tests implement
// it to make a device fail.
//
//   MILLRACE_TRY(runner.forward(plan));         // step t+1: its logits
//   MILLRACE_TRY(runner.wait(before));          // may come here: the ids of step t
//   ... the host decides what the rows of step t+1 may draw ...
//   MILLRACE_TRY(runner.sample(tasks, batch));  // step t+1: its ids
//   MILLRACE_TRY(runner.wait(batch));
//
// The calls alternate: each forward() has one sample(), before the next forward(), because that one
// reads the ids that sample() draws, on the device. However long the host takes in between, and
// whatever it learns, the logits are the same; a loop that need not decide calls both at once and
// lets the device run ahead.
//
// Who owns what: the plan belongs to the caller as soon as forward() returns. The logits are the
// step's from forward() to sample(), which may overwrite them; the ids and the states of rows
// change in sample() alone. In between, other steps may be waited for, requests may be added and
// cancelled, and pages may be read and written that the plan does not name.
//
// A call out of turn is refused (Code::internal) and changes nothing. After another error the step
// is given up: call probe(), and go on with forward(). Thread safety: one owner thread.
#include <cstdint>
#include <span>

#include "engine/core/model/plan.hpp"
#include "engine/core/sampler/sampler.hpp"
#include "schemas/base/error.hpp"

namespace millrace::engine {

class StepRunner {
 public:
  virtual ~StepRunner() = default;
  // Enqueues the copies and the forward pass of a step and does not wait for them.
  Status forward(const StepPlan& plan);
  // Enqueues the sampling of the step whose forward pass was enqueued last: one task for each
  // output of its plan, in its order, also if there is none; and the read of the results into
  // `batch`, which must live until `wait` returns. Does not wait.
  Status sample(std::span<const SampleTask> tasks, SampleBatch& batch);
  // Returns when the whole step is done, also for a step without outputs. The step
  // counter, StepPacer and the watch for hanging steps rely on that.
  virtual Status wait(SampleBatch& batch) = 0;
  // Call this after an error. It waits for all enqueued work and says whether the device still
  // answers; if it does, the next step may be started.
  Status probe();

 protected:
  // What the calls do when it is their turn.
  virtual Status enqueue_forward(const StepPlan& plan) = 0;
  virtual Status enqueue_sample(std::span<const SampleTask> tasks, SampleBatch& batch) = 0;
  virtual Status check_device() = 0;

 private:
  enum class Turn : std::uint8_t { forward, sample, probe };
  Turn turn_ = Turn::forward;
  std::size_t outputs_ = 0;  // of the plan that waits for its sampling
};

}  // namespace millrace::engine
