#pragma once
// Runs steps on the devices of a pipeline, so that all compute at once. A step is divided into as
// many parts as there are devices (model/plan_parts.hpp), which follow each other through them:
//
//   device 0   A1  B1  A2  B2  A3 ...      A and B: the parts of steps 1, 2, 3
//   device 1       A1  B1  A2  B2 ...
//
// A2 needs the ids that A1 has drawn on the last device, which are handed over to the first one.
// The last device samples a part before it computes the next one, so that these ids come back while
// that one is computed. The host waits for each hand-over and then enqueues what follows it on the
// next device, which still computes what was enqueued before. The model and the sampler, which is
// on the last device, must outlive the runner. Thread safety: the devices' owner thread.
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <vector>

#include "engine/core/device/hand_over.hpp"
#include "engine/core/model/model.hpp"
#include "engine/core/model/plan_parts.hpp"
#include "engine/core/request/step_runner.hpp"
#include "engine/core/sampler/sampler.hpp"

namespace millrace::engine {

class PipelineRunner final : public StepRunner {
 public:
  // Errors: out_of_memory, device_error.
  static Result<std::unique_ptr<PipelineRunner>> create(Model& model, Sampler& sampler);

  Status wait(SampleBatch& batch) override { return sampler_->wait(batch); }

 private:
  PipelineRunner(Model& model, Sampler& sampler);
  Status enqueue_forward(const StepPlan& plan) override;
  Status enqueue_sample(std::span<const SampleTask> tasks, SampleBatch& batch) override;
  Status check_device() override;
  Status fetch_ids(const StepPlan& plan);
  Status send_ids(std::span<const SampleTask> tasks);

  Model* model_;
  Sampler* sampler_;
  Buffer ids_;  // of the sampler, on the first device
  HandOver ids_over_;
  std::uint64_t sent_ = 0;                           // how often ids were taken from the sampler
  std::map<std::uint32_t, std::uint64_t> sent_for_;  // by slot: with which of them its draw was
  std::vector<PlanPart> parts_;
  std::size_t used_ = 0;  // of the parts, those that have rows
  std::vector<SampleTask> tasks_;
};

}  // namespace millrace::engine
