#include "engine/core/request/step_runner.hpp"

#include <string>

namespace millrace::engine {
namespace {

std::unexpected<Error> refused(const std::string& what, const char* hint) {
  return fail(Code::internal, "the calls of a step: " + what, hint);
}

}  // namespace

Status StepRunner::forward(const StepPlan& plan) {
  if (turn_ == Turn::sample) {
    return refused("forward() before sample() of the step before, whose logits would be lost",
                   "call sample() once after each forward()");
  }
  if (turn_ == Turn::probe) {
    return refused("forward() after a step that failed", "call probe() first");
  }
  turn_ = Turn::probe;  // unless all goes well
  MILLRACE_TRY(enqueue_forward(plan));
  outputs_ = plan.outputs.size();
  turn_ = Turn::sample;
  return {};
}

Status StepRunner::sample(std::span<const SampleTask> tasks, SampleBatch& batch) {
  if (turn_ != Turn::sample) {
    return refused("sample() without logits: no forward() since the last sample() or error",
                   "call sample() once after each forward()");
  }
  if (tasks.size() != outputs_) {
    return refused(
        std::to_string(tasks.size()) + " tasks for " + std::to_string(outputs_) + " outputs",
        "give a task for each output of the plan, in its order");
  }
  turn_ = Turn::probe;
  MILLRACE_TRY(enqueue_sample(tasks, batch));
  turn_ = Turn::forward;
  return {};
}

Status StepRunner::probe() {
  MILLRACE_TRY(check_device());
  turn_ = Turn::forward;
  return {};
}

}  // namespace millrace::engine
