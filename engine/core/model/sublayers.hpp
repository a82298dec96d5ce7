#pragma once
// The experts, recurrences and products by head of a model's layers. Layers that differ in nothing
// but weights share one, and with it the kernels and the memory of a step. Thread safety: the
// device's owner thread.
#include <memory>
#include <utility>
#include <vector>

#include "engine/core/families/spec.hpp"
#include "engine/core/model/experts.hpp"
#include "engine/core/model/head_products.hpp"
#include "engine/core/model/recurrence.hpp"

namespace millrace::engine {

class Sublayers {
 public:
  // The layer must have experts, or a recurrence with these weights. The backend must outlive what
  // is returned.
  Experts& experts(Backend& backend, const LayerSpec& layer);
  Recurrence& recurrence(Backend& backend, const LayerSpec& layer, const RecurrenceWeights& weights,
                         std::uint32_t step_tokens);
  // For steps of up to so many tokens, the same in all calls. Null without latent attention.
  HeadProducts* head_products(Backend& backend, const LayerSpec& layer, std::uint32_t tokens);

 private:
  std::vector<std::pair<ExpertsSpec, std::unique_ptr<Experts>>> experts_;
  std::vector<std::unique_ptr<Recurrence>> recurrences_;
  std::vector<std::pair<std::uint32_t, std::unique_ptr<HeadProducts>>> head_products_;  // by heads
};

}  // namespace millrace::engine
