#pragma once
// Runs steps on a device: the forward pass by a Model, the sampling by a Sampler. All must outlive
// the runner. Thread safety: the device's owner thread.
#include <span>

#include "engine/core/device/device.hpp"
#include "engine/core/model/model.hpp"
#include "engine/core/request/step_runner.hpp"
#include "engine/core/sampler/sampler.hpp"

namespace millrace::engine {

class DeviceRunner final : public StepRunner {
 public:
  DeviceRunner(Device& device, Model& model, Sampler& sampler)
      : device_(&device), model_(&model), sampler_(&sampler) {}

  Status wait(SampleBatch& batch) override { return sampler_->wait(batch); }

 private:
  Status enqueue_forward(const StepPlan& plan) override {
    for (const PageCopy& copy : plan.copies) MILLRACE_TRY(model_->copy_page(copy));
    return model_->forward(plan, sampler_->ids());
  }
  Status enqueue_sample(std::span<const SampleTask> tasks, SampleBatch& batch) override {
    MILLRACE_TRY(sampler_->enqueue(model_->logits(), model_->logits_stride(), tasks, batch));
    return device_->flush();
  }
  Status check_device() override {
    MILLRACE_TRY(device_->finish());
    MILLRACE_TRY(model_->recover());
    return device_->finish();
  }

  Device* device_;
  Model* model_;
  Sampler* sampler_;
};

}  // namespace millrace::engine
