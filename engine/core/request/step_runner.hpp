#pragma once
// What the engine loop needs from device, model and sampler. Tests implement it to make a device
// fail. Thread safety: one owner thread.
#include <span>

#include "engine/core/model/plan.hpp"
#include "engine/core/sampler/sampler.hpp"
#include "schemas/base/error.hpp"

namespace millrace::engine {

class StepRunner {
 public:
  virtual ~StepRunner() = default;
  // Enqueues a step and does not wait for it: the forward pass, one sampling task for each output
  // of the plan, and the read of the results into `batch`, which must live until `wait` returns.
  virtual Status start(const StepPlan& plan, std::span<const SampleTask> tasks,
                       SampleBatch& batch) = 0;
  // Returns when the whole step is done, also for a step without outputs. The step
  // counter, StepPacer and the watch for hanging steps rely on that.
  virtual Status wait(SampleBatch& batch) = 0;
  // Call this after an error. It waits for all enqueued work and says whether the device still
  // answers; if it does, the next step may be started.
  virtual Status probe() = 0;
};

}  // namespace millrace::engine
