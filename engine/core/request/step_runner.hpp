#pragma once
// What the engine needs of device, model and sampler, so that tests can make a device fail.
// Thread safety: one owner thread.
#include <span>

#include "engine/core/model/plan.hpp"
#include "engine/core/sampler/sampler.hpp"
#include "schemas/base/error.hpp"

namespace millrace::engine {

class StepRunner {
 public:
  virtual ~StepRunner() = default;
  // Enqueues a step: forward pass, one sampling task for each of the plan's outputs, and the read
  // of what they give into `batch`, which must stay until `wait`. Does not wait.
  virtual Status start(const StepPlan& plan, std::span<const SampleTask> tasks,
                       SampleBatch& batch) = 0;
  // Returns when the whole step is done, one without outputs too: what a step is counted, paced and
  // watched by.
  virtual Status wait(SampleBatch& batch) = 0;
  // Whether the device still answers, after an error, when all that was enqueued is done; if so,
  // the next step may be started.
  virtual Status probe() = 0;
};

}  // namespace millrace::engine
