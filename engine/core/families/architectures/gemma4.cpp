#include <algorithm>
#include <string>

#include "engine/core/families/family.hpp"
#include "engine/core/families/keys.hpp"

namespace millrace::engine::families {
namespace {

// The last layers attend to the keys and values of the last layer before them that has the same
// window.
Status share_caches(Keys& keys, ModelSpec& spec) {
  constexpr std::string_view name = "attention.shared_kv_layers";
  MILLRACE_ASSIGN(const auto shared, keys.get_or<std::uint32_t>(name, 0));
  const std::uint32_t count = spec.layer_count(), own = count - std::min(shared, count);
  for (std::uint32_t i = own; i < count; ++i) {
    AttentionSpec& attention = spec.layers[i].attention;
    for (std::uint32_t j = 0; j < own; ++j) {
      if (spec.layers[j].attention.window == attention.window) attention.cache_of = j;
    }
    if (!attention.cache_of) {
      return damaged(keys.file(), keys.full(name) + " = " + std::to_string(shared) + ": layer " +
                                      std::to_string(i) +
                                      " has no layer of its window before them");
    }
    const AttentionSpec& owner = spec.layers[*attention.cache_of].attention;
    if (owner.head_dim != attention.head_dim || owner.kv_heads != attention.kv_heads) {
      return damaged(keys.file(), "layer " + std::to_string(i) + " attends to the keys of layer " +
                                      std::to_string(*attention.cache_of) +
                                      ", which has other KV heads");
    }
    attention.keys_are_values = false;  // it has neither
  }
  return {};
}

Status read_gemma4(Keys& keys, ModelSpec& spec) {
  constexpr std::string_view pattern = "attention.sliding_window_pattern";
  if (!keys.contains(pattern)) return damaged(keys.file(), keys.full(pattern) + " is absent");
  MILLRACE_TRY(share_caches(keys, spec));
  constexpr std::string_view embedding = "embedding_length_per_layer_input";
  MILLRACE_ASSIGN(spec.layer_embedding, keys.get_or<std::uint32_t>(embedding, 0));
  if (spec.layer_embedding % 16 != 0 || spec.layer_embedding > 4096) {
    return unsupported(keys.file(), keys.full(embedding) + " = " +
                                        std::to_string(spec.layer_embedding) +
                                        " is not a multiple of 16, up to 4096");
  }
  for (std::uint32_t i = 0; i < spec.layer_count(); ++i) {
    const std::string scale = "blk." + std::to_string(i) + ".layer_output_scale.weight";
    spec.layers[i].output_scale = keys.file().find_tensor(scale) != nullptr;
  }
  return {};
}

}  // namespace

// Gemma 4: heads of windowed layers are smaller; global layers may have no matrix of values, and
// turn a part of their channels by divisors; E2B and E4B have embeddings by layer and shared
// caches, 26B-A4B has experts beside a dense feed-forward.
extern const Family gemma4{
    .architecture = "gemma4",
    .norms = {NormPlacement::before_and_after, "attn_norm", "post_attention_norm", "ffn_norm",
              "post_ffw_norm", "post_ffw_norm_1", "pre_ffw_norm_2", "post_ffw_norm_2"},
    .rope = RopeKind::halves,
    .local_base = 10000.0,
    .local_is_plain = true,
    .head_norm = HeadNorm::by_head,
    .windowed = WindowedLayers::pattern,
    .window_is_needed = true,
    .score_scale = 1.0f,
    .windowed_heads = true,
    .normed_values = true,
    .values_may_be_keys = true,
    .gate = Gate::gelu,
    .mixture = Mixture::optional,
    .experts_beside_dense = true,
    .embedding_times_root_width = true,
    .logit_soft_cap = 0.0f,
    .finish = read_gemma4,
};

}  // namespace millrace::engine::families
