#include "engine/core/families/family.hpp"
#include "engine/core/families/keys.hpp"
#include "engine/core/families/rope.hpp"

namespace millrace::engine::families {
namespace {

// Ministral 3 multiplies queries by a temperature that grows beyond the original context.
Status read_temperature(Keys& keys, ModelSpec& spec) {
  constexpr std::string_view name = "attention.temperature_scale";
  MILLRACE_ASSIGN(const float beta, keys.get_or<float>(name, 0.0f));
  if (beta == 0.0f) return {};
  if (!(beta > 0.0f && beta <= 10.0f)) {
    return damaged(keys.file(),
                   keys.full(name) + " = " + std::to_string(beta) + " is outside 0 to 10");
  }
  MILLRACE_ASSIGN(const auto tokens, read_original_tokens(keys, spec.context_tokens));
  for (LayerSpec& layer : spec.layers) {
    layer.attention.temperature_beta = beta;
    layer.attention.temperature_tokens = tokens;
  }
  return {};
}

}  // namespace

// Ministral 3, Mistral Small 3.
extern const Family mistral3{
    .architecture = "mistral3",
    .windowed = WindowedLayers::all,
    .mixture = Mixture::optional,
    .finish = read_temperature,
};

}  // namespace millrace::engine::families
