#include "engine/core/families/family.hpp"
#include "engine/core/families/keys.hpp"

namespace millrace::engine::families {
namespace {

Status read_scales(Keys& keys, ModelSpec& spec) {
  MILLRACE_ASSIGN(spec.embedding_scale, keys.factor("embedding_scale"));
  MILLRACE_ASSIGN(const float logit_divisor, keys.factor("logit_scale"));
  MILLRACE_ASSIGN(const float residual_scale, keys.factor("residual_scale"));
  MILLRACE_ASSIGN(const bool rotates, keys.get_or<bool>("rope.scaling.finetuned", true));
  spec.logit_scale = 1.0f / logit_divisor;
  for (LayerSpec& layer : spec.layers) {
    layer.residual_scale = residual_scale;
    if (!layer.attention.exists()) continue;
    MILLRACE_ASSIGN(layer.attention.scale, keys.factor("attention.scale", layer.attention.scale));
    if (!rotates) layer.attention.rope = {.kind = RopeKind::none};
  }
  return {};
}

}  // namespace

// Granite 3 and 4, dense and with experts.
extern const Family granite{.architecture = "granite", .finish = read_scales};

extern const Family granitemoe{
    .architecture = "granitemoe",
    .mixture = Mixture::always,
    .finish = read_scales,
};

// Granite 4 H: Mamba 2, and some layers that attend, without a rope.
extern const Family granitehybrid{
    .architecture = "granitehybrid",
    .recurrent = RecurrentLayers::without_kv_heads,
    .recurrence = RecurrenceKind::mamba2,
    .mixture = Mixture::optional,
    .finish = read_scales,
};

}  // namespace millrace::engine::families
