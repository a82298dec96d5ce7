#pragma once
// A layer's feed-forward as data: dense, or a mixture of experts. Thread safety: plain values.
#include <cstdint>
#include <optional>

namespace millrace::engine {

enum class Gate : std::uint8_t {
  silu,          // silu(gate) * up
  gelu,          // gelu_tanh(gate) * up
  clamped_silu,  // g = min(gate, 7), u = clamp(up, -7, 7): g * sigmoid(1.702 g) * (u + 1), gpt-oss
  relu_squared   // max(up, 0)^2: there is no gate
};
inline bool has_gate(Gate gate) {
  return gate != Gate::relu_squared;
}

enum class Router : std::uint8_t {
  softmax,           // of all logits; the best are chosen by it
  sigmoid,           // of each logit
  softmax_of_chosen  // the best logits are chosen, their softmax weighs them
};

// A mixture of experts: `used` of `count` feed-forwards of `width`, weighed and summed.
struct ExpertsSpec {
  std::uint32_t count = 0, used = 0, width = 0;
  Router router = Router::softmax;
  bool selection_bias = false;  // exp_probs_b is added for the choice, not to the weights
  bool normalized = false;      // weights are divided by their sum
  float scale = 1.0f;           // multiplies the weights
  std::uint32_t groups = 1, groups_used = 1;  // experts are chosen from the best groups only
  std::uint32_t shared_width = 0;             // of the expert that every token uses; 0: none
  bool shared_gate = false;                   // it is multiplied by sigmoid of a row's product
  bool router_norm = false;                   // the router has an input of its own (spec.hpp)
  bool expert_scales = false;  // a chosen expert's weight is multiplied by its ffn_down_exps.scale
  bool operator==(const ExpertsSpec&) const = default;
};

// A layer without a feed-forward has neither a width nor experts.
struct FeedForwardSpec {
  std::uint32_t width = 0;  // of the dense one; 0 if there are only experts
  Gate gate = Gate::silu;
  std::optional<ExpertsSpec> experts{};
  bool exists() const { return width > 0 || experts; }
  bool has_both() const { return width > 0 && experts.has_value(); }  // side by side (spec.hpp)
  bool operator==(const FeedForwardSpec&) const = default;
};

}  // namespace millrace::engine
