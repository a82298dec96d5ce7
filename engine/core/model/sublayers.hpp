#pragma once
// The experts and recurrences of a model's layers. Layers that differ in nothing but weights share
// one, and with it the kernels and the memory of a step. Thread safety: the device's owner thread.
#include <memory>
#include <utility>
#include <vector>

#include "engine/core/families/spec.hpp"
#include "engine/core/model/experts.hpp"
#include "engine/core/model/recurrence.hpp"

namespace millrace::engine {

class Sublayers {
 public:
  // The layer must have experts, or a recurrence with these weights. The backend must outlive what
  // is returned.
  Experts& experts(Backend& backend, const LayerSpec& layer);
  Recurrence& recurrence(Backend& backend, const LayerSpec& layer,
                         const RecurrenceWeights& weights);

 private:
  std::vector<std::pair<ExpertsSpec, std::unique_ptr<Experts>>> experts_;
  std::vector<std::unique_ptr<Recurrence>> recurrences_;
};

}  // namespace millrace::engine
