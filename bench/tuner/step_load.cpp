#include "bench/tuner/step_load.hpp"

#include <utility>

namespace millrace::engine {

StepLoad::StepLoad(std::shared_ptr<Model> model, const StepShape& shape)
    : model_(std::move(model)) {
  const std::uint32_t page = model_->info().page_tokens;
  const std::uint32_t before = (shape.length - shape.chunk) / page;  // pages that are only read
  const std::uint32_t own = (shape.length + page - 1) / page - before;
  for (std::uint32_t r = 0; r < shape.rows; ++r) {
    PlanRow row;
    row.sequence = r;
    row.first_position = shape.length - shape.chunk;
    row.count = shape.chunk;
    row.token_offset = static_cast<std::uint32_t>(plan_.tokens.size());
    row.page_offset = static_cast<std::uint32_t>(plan_.pages.size());
    row.page_count = before + own;
    for (std::uint32_t p = 0; p < before; ++p) plan_.pages.push_back(p);
    for (std::uint32_t p = 0; p < own; ++p) plan_.pages.push_back(before + r * own + p);
    row.output_offset = static_cast<std::uint32_t>(plan_.outputs.size());
    row.output_count = 1;
    plan_.outputs.push_back({.offset = shape.chunk - 1});
    for (std::uint32_t i = 0; i < shape.chunk; ++i) {
      plan_.tokens.push_back((r * 7919 + i * 104729) % model_->info().vocabulary);
    }
    plan_.rows.push_back(row);
  }
}

}  // namespace millrace::engine
