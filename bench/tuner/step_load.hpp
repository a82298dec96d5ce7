#pragma once
// Whole steps of a model, as the engine runs them, to be launched repeatedly with one tuning.
// Thread safety: the device's owner thread.
#include <cstdint>
#include <memory>

#include "engine/core/model/model.hpp"

namespace millrace::engine {

// A step's rows: each ends at `length` positions, of which the last `chunk` are computed.
struct StepShape {
  std::uint32_t rows = 1, length = 1, chunk = 1;
};

class StepLoad {
 public:
  // All rows share the pages before their last `chunk` positions; each row has its own pages for
  // these. `model` must have enough pages for both.
  StepLoad(std::shared_ptr<Model> model, const StepShape& shape);
  Status launch() { return model_->forward(plan_, no_buffer_); }

 private:
  std::shared_ptr<Model> model_;
  StepPlan plan_;
  Buffer no_buffer_;
};

}  // namespace millrace::engine
