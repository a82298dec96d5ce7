#include "engine/core/model/sublayers.hpp"

namespace millrace::engine {

Experts& Sublayers::experts(Backend& backend, const LayerSpec& layer) {
  const ExpertsSpec& of = *layer.feed_forward.experts;
  for (const auto& [spec, made] : experts_) {
    if (spec == of) return *made;
  }
  auto made = std::make_unique<Experts>(backend, of, layer.feed_forward.gate);
  return *experts_.emplace_back(of, std::move(made)).second;
}

Recurrence& Sublayers::recurrence(Backend& backend, const LayerSpec& layer,
                                  const RecurrenceWeights& weights, std::uint32_t step_tokens) {
  for (const auto& made : recurrences_) {
    if (made->serves(layer.recurrence, weights.in)) return *made;
  }
  return *recurrences_.emplace_back(
      std::make_unique<Recurrence>(backend.target(), layer.recurrence, weights.in, step_tokens));
}

HeadProducts* Sublayers::head_products(Backend& backend, const LayerSpec& layer,
                                       std::uint32_t tokens) {
  if (!layer.attention.latent) return nullptr;
  const std::uint32_t heads = layer.attention.heads;
  for (const auto& [of, made] : head_products_) {
    if (of == heads) return made.get();
  }
  auto made = std::make_unique<HeadProducts>(backend, heads, tokens);
  return head_products_.emplace_back(heads, std::move(made)).second.get();
}

}  // namespace millrace::engine
