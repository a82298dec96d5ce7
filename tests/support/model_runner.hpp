#pragma once
// Runs sequences through a Model, cut into steps as the test likes, and keeps the logits.
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "engine/core/model/model.hpp"
#include "tests/support/device.hpp"

namespace millrace::testing {

class ModelRunner {
 public:
  using Logits = std::vector<std::vector<float>>;  // [position][vocabulary]

  // Some consecutive tokens of one sequence in one step.
  struct Part {
    std::uint32_t sequence = 0, first = 0, count = 0;
  };

  // `spec` replaces what the file says of the model. With several `stages` the model is a pipeline
  // over as many queues of the device, each with a context of its own.
  ModelRunner(const engine::GgufFile& file, const engine::ModelOptions& options,
              const engine::DeviceOptions& device = {},
              const std::optional<engine::ModelSpec>& spec = {}, std::uint32_t stages = 1)
      : device_(open_device(device)) {
    std::vector<engine::Device*> devices{device_.get()};
    while (devices.size() < stages) {
      engine::DeviceOptions another = device;
      another.device = std::to_string(device_->info().platform_index) + ":" +
                       std::to_string(device_->info().device_index);
      devices.push_back(others_.emplace_back(open_device(another)).get());
    }
    model_ = must(spec ? engine::Model::load(devices, file, *spec, options)
                       : engine::Model::load(devices, file, options));
  }

  engine::Device& device() { return *device_; }
  engine::Model& model() { return *model_; }

  // Sequence s gets the pages s * pages_each to (s + 1) * pages_each - 1, but not in this order.
  void set_sequences(std::vector<Tokens> sequences, std::uint32_t pages_each) {
    sequences_ = std::move(sequences);
    pages_each_ = pages_each;
    logits_.assign(sequences_.size(), {});
    for (std::size_t i = 0; i < sequences_.size(); ++i) logits_[i].resize(sequences_[i].size());
  }
  const Logits& logits(std::uint32_t sequence) const { return logits_[sequence]; }

  // Runs one step and keeps the logits of every token from position `from` on.
  void step(const std::vector<Part>& parts, std::uint32_t from = 0) {
    engine::StepPlan plan;
    for (const Part& part : parts) add(plan, part, from);
    must(model_->forward(plan, {}));
    const std::uint32_t stride = model_->logits_stride();
    const auto rows = download<float>(model_->device(model_->stages() - 1), model_->logits(),
                                      plan.outputs.size() * stride);
    std::size_t row = 0;
    for (const Part& part : parts) {
      for (std::uint32_t i = 0; i < part.count; ++i) {
        if (part.first + i < from) continue;
        const float* const at = &rows[row++ * stride];
        logits_[part.sequence][part.first + i].assign(at, at + model_->info().vocabulary);
      }
    }
  }

  // Runs a whole sequence in steps of `chunk` tokens.
  void run(std::uint32_t sequence, std::uint32_t chunk, std::uint32_t from = 0) {
    const auto size = static_cast<std::uint32_t>(sequences_[sequence].size());
    for (std::uint32_t at = 0; at < size; at += chunk) {
      step({{sequence, at, std::min(chunk, size - at)}}, from);
    }
  }

 private:
  void add(engine::StepPlan& plan, const Part& part, std::uint32_t from) const {
    engine::PlanRow row;
    row.sequence = part.sequence;
    row.first_position = part.first;
    row.count = part.count;
    row.token_offset = static_cast<std::uint32_t>(plan.tokens.size());
    const Tokens& tokens = sequences_[part.sequence];
    plan.tokens.insert(plan.tokens.end(), tokens.begin() + part.first,
                       tokens.begin() + part.first + part.count);
    row.page_offset = static_cast<std::uint32_t>(plan.pages.size());
    row.page_count = pages_each_;
    for (std::uint32_t i = 0; i < pages_each_; ++i) {
      plan.pages.push_back(part.sequence * pages_each_ +
                           (pages_each_ - 1 - i + part.sequence) % pages_each_);
    }
    // Each sequence has a place of states of its own, which no other one reads.
    row.keep_states_at(part.sequence);
    row.output_offset = static_cast<std::uint32_t>(plan.outputs.size());
    for (std::uint32_t i = 0; i < part.count; ++i) {
      if (part.first + i >= from) plan.outputs.push_back({i, engine::OutputKind::logits});
    }
    row.output_count = static_cast<std::uint32_t>(plan.outputs.size()) - row.output_offset;
    plan.rows.push_back(row);
  }

  std::unique_ptr<engine::Device> device_;
  std::vector<std::unique_ptr<engine::Device>> others_;
  std::unique_ptr<engine::Model> model_;
  std::vector<Tokens> sequences_;
  std::uint32_t pages_each_ = 0;
  std::vector<Logits> logits_;
};

}  // namespace millrace::testing
