#include "engine/core/families/temperature.hpp"

#include <string>

#include "engine/core/families/rope.hpp"

namespace millrace::engine {

Status read_temperature(Keys& keys, ModelSpec& spec) {
  constexpr std::string_view name = "attention.temperature_scale";
  constexpr std::string_view length = "attention.temperature_length";
  MILLRACE_ASSIGN(const float beta, keys.get_or<float>(name, 0.0f));
  MILLRACE_ASSIGN(const auto original, read_original_tokens(keys, spec.context_tokens));
  MILLRACE_ASSIGN(const auto tokens, keys.get_or<std::uint32_t>(length, original));
  if (beta == 0.0f) return {};
  if (!(beta > 0.0f && beta <= 10.0f)) {
    return damaged(keys.file(),
                   keys.full(name) + " = " + std::to_string(beta) + " is outside 0 to 10");
  }
  if (tokens == 0 || tokens > 1u << 24) {
    return damaged(keys.file(),
                   keys.full(length) + " = " + std::to_string(tokens) + " is outside 1 to 2^24");
  }
  for (LayerSpec& layer : spec.layers) {
    layer.attention.temperature_beta = beta;
    layer.attention.temperature_tokens = tokens;
  }
  return {};
}

}  // namespace millrace::engine
