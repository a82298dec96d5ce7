#include "engine/core/pipeline_runner.hpp"

#include <algorithm>
#include <utility>

namespace millrace::engine {

PipelineRunner::PipelineRunner(Model& model, Sampler& sampler)
    : model_(&model),
      sampler_(&sampler),
      ids_over_(model.device(model.stages() - 1), model.device(0),
                static_cast<std::uint32_t>(4 * model.stages()), "the drawn ids"),
      parts_(model.stages()) {}

Result<std::unique_ptr<PipelineRunner>> PipelineRunner::create(Model& model, Sampler& sampler) {
  std::unique_ptr<PipelineRunner> self(new PipelineRunner(model, sampler));
  MILLRACE_ASSIGN(self->ids_,
                  model.device(0).allocate_zeroed(sampler.ids().size_bytes(), "drawn ids"));
  return self;
}

// The last device computes only the first part here: its sampling comes before the next part.
Status PipelineRunner::enqueue_forward(const StepPlan& plan) {
  for (const PageCopy& copy : plan.copies) MILLRACE_TRY(model_->copy_page(copy));
  divide(plan, parts_);
  const std::size_t last = model_->stages() - 1;
  const auto unused =
      std::ranges::stable_partition(parts_, [](const auto& p) { return !p.plan.rows.empty(); });
  used_ = parts_.size() - unused.size();
  for (std::size_t part = 0; part < used_; ++part) {
    MILLRACE_TRY(model_->lower(part, parts_[part].plan, ids_));
  }
  for (std::size_t part = 0; part < used_; ++part) {
    MILLRACE_TRY(fetch_ids(parts_[part].plan));
    for (std::size_t stage = 0; stage < last; ++stage) {
      MILLRACE_TRY(model_->run_stage(part, stage, ids_));
    }
  }
  return model_->run_stage(0, last, ids_);
}

Status PipelineRunner::enqueue_sample(std::span<const SampleTask> tasks, SampleBatch& batch) {
  const std::size_t last = model_->stages() - 1;
  batch.divide(used_, tasks.size());
  for (std::size_t part = 0; part < used_; ++part) {
    if (part > 0) MILLRACE_TRY(model_->run_stage(part, last, ids_));
    tasks_.clear();
    for (const std::uint32_t output : parts_[part].outputs) {
      batch.place(output, part, static_cast<std::uint32_t>(tasks_.size()));
      tasks_.push_back(tasks[output]);
    }
    MILLRACE_TRY(
        sampler_->enqueue(model_->logits(), model_->logits_stride(), tasks_, batch.part(part)));
    MILLRACE_TRY(send_ids(tasks_));
    MILLRACE_TRY(model_->device(last).flush());
  }
  return {};
}

// Takes the ids that a part has drawn from the sampler. They are given to the first device when a
// row needs them.
Status PipelineRunner::send_ids(std::span<const SampleTask> tasks) {
  const auto draws = [](const SampleTask& task) { return task.draw; };
  if (std::ranges::none_of(tasks, draws)) return {};
  if (ids_over_.full()) MILLRACE_TRY(ids_over_.give(ids_));
  MILLRACE_TRY(ids_over_.take(sampler_->ids(), sampler_->ids().size_bytes()));
  ++sent_;
  for (const SampleTask& task : tasks) {
    if (task.draw) sent_for_[task.slot] = sent_;
  }
  return {};
}

// Later ids come with all earlier ones.
Status PipelineRunner::fetch_ids(const StepPlan& plan) {
  std::uint64_t wanted = 0;
  for (const PlanRow& row : plan.rows) {
    if (row.device_slot != no_slot) wanted = std::max(wanted, sent_for_[row.device_slot]);
  }
  while (sent_ - ids_over_.waiting() < wanted) MILLRACE_TRY(ids_over_.give(ids_));
  return {};
}

Status PipelineRunner::check_device() {
  MILLRACE_TRY(model_->finish());
  MILLRACE_TRY(model_->recover());
  while (ids_over_.waiting() > 0) MILLRACE_TRY(ids_over_.give(ids_));
  return model_->finish();
}

}  // namespace millrace::engine
