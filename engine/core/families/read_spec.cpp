#include "engine/core/families/read_spec.hpp"

#include <algorithm>
#include <cmath>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/core/families/family.hpp"
#include "engine/core/families/feed_forward.hpp"
#include "engine/core/families/keys.hpp"
#include "engine/core/families/latent.hpp"
#include "engine/core/families/layer_tensors.hpp"
#include "engine/core/families/recurrence.hpp"
#include "engine/core/families/rope.hpp"

namespace millrace::engine {
namespace {

// The most shares of 2^40 that a sum of 64 bits holds (kernels/sampler/row.cl).
constexpr std::uint64_t most_vocabulary = std::uint64_t{1} << 23;

Result<Blocks> read_sizes(Keys& keys, const Family& family, ModelSpec& spec) {
  const GgufFile& file = keys.file();
  Blocks blocks;
  MILLRACE_ASSIGN(blocks.all, keys.get<std::uint32_t>("block_count"));
  MILLRACE_ASSIGN(const auto drafts, keys.get_or<std::uint32_t>("nextn_predict_layers", 0));
  MILLRACE_ASSIGN(spec.width, keys.get<std::uint32_t>("embedding_length"));
  MILLRACE_ASSIGN(spec.context_tokens, keys.get<std::uint32_t>("context_length"));
  constexpr std::string_view rms = "attention.layer_norm_rms_epsilon";
  constexpr std::string_view centered = "attention.layer_norm_epsilon";
  // The norms have one of the two kinds. Nemotron's files may have the other kind's name.
  const bool is_centered =
      family.centered_norms || (!keys.contains(rms) && keys.contains(centered));
  MILLRACE_ASSIGN(spec.norm_epsilon, keys.get<float>(is_centered ? centered : rms));
  keys.ignore(is_centered ? rms : centered);
  MILLRACE_ASSIGN(const Tensor* embedding, file.tensor("token_embd.weight"));
  spec.vocabulary =
      static_cast<std::uint32_t>(std::min<std::uint64_t>(embedding->rows(), most_vocabulary));
  const auto within = [](std::uint32_t value, std::uint32_t most) {
    return value > 0 && value <= most;
  };
  if (!within(blocks.all, 1024) || drafts >= blocks.all || !within(spec.width, 1u << 17) ||
      !within(spec.context_tokens, 1u << 24) || embedding->rows() != spec.vocabulary ||
      !(spec.norm_epsilon > 0.0f && spec.norm_epsilon < 1.0f)) {
    return damaged(file, "impossible sizes: " + std::to_string(blocks.all) + " layers, " +
                             std::to_string(drafts) + " of them for drafts, " +
                             std::to_string(spec.width) + " wide, context " +
                             std::to_string(spec.context_tokens) + ", vocabulary " +
                             std::to_string(embedding->rows()) + ", norm's epsilon " +
                             std::to_string(spec.norm_epsilon));
  }
  blocks.layers = blocks.all - drafts;
  return blocks;
}

// Reads the channels of a head, from keys that end in `suffix`.
Result<std::uint32_t> read_head_dim(Keys& keys, const std::string& suffix, std::uint32_t fallback) {
  MILLRACE_ASSIGN(const auto head_dim,
                  keys.get_or<std::uint32_t>("attention.key_length" + suffix, fallback));
  MILLRACE_ASSIGN(const auto value_dim,
                  keys.get_or<std::uint32_t>("attention.value_length" + suffix, head_dim));
  if (head_dim != 0 && head_dim % 16 == 0 && head_dim <= 512 && value_dim == head_dim) {
    return head_dim;
  }
  return unsupported(keys.file(),
                     "heads of " + std::to_string(head_dim) + " key and " +
                         std::to_string(value_dim) +
                         " value channels: both must be the same multiple of 16, up to 512");
}

// Reads the heads of each block. Those of a model without key_length share the width evenly, as
// many as the first block has. A block without KV heads does not attend, in families that have
// such.
Result<std::vector<AttentionSpec>> read_heads(Keys& keys, const Family& family,
                                              const std::vector<bool>& windowed,
                                              std::uint32_t width) {
  const auto blocks = static_cast<std::uint32_t>(windowed.size());
  const GgufFile& file = keys.file();
  MILLRACE_ASSIGN(const auto heads, keys.by_block("attention.head_count", blocks, {}));
  const bool same_kv = !keys.contains("attention.head_count_kv");
  MILLRACE_ASSIGN(const auto kv_heads, keys.by_block("attention.head_count_kv", blocks, 0));
  std::vector<AttentionSpec> out(blocks);
  if (family.recurrent == RecurrentLayers::all) return out;
  for (std::uint32_t i = 0; i < blocks; ++i) {
    const bool may_lack = family.recurrent == RecurrentLayers::without_kv_heads && !same_kv;
    if (may_lack && kv_heads[i] == 0) continue;
    out[i].heads = heads[i];
    out[i].kv_heads = same_kv ? heads[i] : kv_heads[i];
    const bool counts_fit = out[i].heads > 0 && out[i].kv_heads > 0 &&
                            out[i].heads % out[i].kv_heads == 0 && out[i].heads <= 1024;
    if (counts_fit) continue;
    return damaged(file, std::to_string(out[i].heads) + " heads and " +
                             std::to_string(out[i].kv_heads) + " KV heads in layer " +
                             std::to_string(i) +
                             ": the heads must be a multiple of the KV heads, up to 1024");
  }
  MILLRACE_ASSIGN(const auto head_dim,
                  read_head_dim(keys, "", width / std::max(heads.front(), 1u)));
  std::uint32_t windowed_dim = head_dim;
  if (family.windowed_heads) {
    MILLRACE_ASSIGN(windowed_dim, read_head_dim(keys, "_swa", head_dim));
  }
  for (std::uint32_t i = 0; i < blocks; ++i) {
    if (out[i].exists()) out[i].head_dim = windowed[i] ? windowed_dim : head_dim;
  }
  return out;
}

// Returns the soft cap of a key, 0 for none.
Result<float> read_soft_cap(Keys& keys, std::string_view name, float fallback) {
  MILLRACE_ASSIGN(const float cap, keys.get_or<float>(name, fallback));
  if (cap == 0.0f || (cap >= 1e-3f && cap <= 1e6f)) return cap;
  return damaged(keys.file(),
                 keys.full(name) + " = " + std::to_string(cap) + " is outside 0.001 to 1e6");
}

// Which layers have a window, and how many positions it has.
struct Windows {
  std::uint32_t tokens = 0;
  std::vector<bool> layers;
};

Result<Windows> read_windows(Keys& keys, const Family& family, Blocks blocks,
                             std::uint32_t context) {
  Windows out;
  MILLRACE_ASSIGN(out.tokens,
                  keys.get_or<std::uint32_t>("attention.sliding_window", family.window));
  if (out.tokens == 0 && family.window_is_needed) {
    return damaged(keys.file(), keys.full("attention.sliding_window") + " is absent or 0");
  }
  constexpr std::string_view pattern = "attention.sliding_window_pattern";
  out.layers.assign(blocks.all, family.windowed == WindowedLayers::all && out.tokens > 0);
  if (family.windowed == WindowedLayers::pattern && out.tokens > 0) {
    const Value* const value = keys.file().metadata().raw(keys.full(pattern));
    if (value != nullptr && value->type == ValueType::array) {
      MILLRACE_ASSIGN(out.layers, keys.flags(pattern, blocks.all));
    } else {
      MILLRACE_ASSIGN(const auto period, keys.get_or<std::uint32_t>(pattern, family.window_period));
      // A period of 0 means that no layer has a window, as a period of 1 does.
      for (std::uint32_t i = 0; i < blocks.all && period > 0; ++i) {
        out.layers[i] = i % period < period - 1;
      }
    }
  }
  if (out.tokens >= context) out.tokens = 0;  // the window has no effect
  const bool by_layer = family.windowed != WindowedLayers::pattern && keys.contains(pattern);
  if (out.tokens > 0 && (family.windowed == WindowedLayers::unstated || by_layer)) {
    return unsupported(keys.file(), keys.full("attention.sliding_window") + " = " +
                                        std::to_string(out.tokens) +
                                        ": a sliding window in only some layers is not supported");
  }
  keys.ignore(pattern);
  return out;
}

// Reads the attention of each block, but for windows and ropes.
Result<std::vector<AttentionSpec>> read_attentions(Keys& keys, const Family& family, Blocks blocks,
                                                   const std::vector<bool>& windowed,
                                                   const ModelSpec& spec) {
  MILLRACE_ASSIGN(auto attentions, family.latent ? read_latent_heads(keys, blocks.all)
                                                 : read_heads(keys, family, windowed, spec.width));
  MILLRACE_ASSIGN(const float soft_cap,
                  read_soft_cap(keys, "attn_logit_softcapping", family.score_soft_cap));
  const auto has = [&](std::string_view ending) {
    return std::ranges::any_of(keys.file().tensors(),
                               [&](const Tensor& tensor) { return tensor.name.ends_with(ending); });
  };
  const bool sinks = family.sinks || has(".attn_sinks.weight");
  const bool norms = !family.head_norm_is_optional || has(".attn_q_norm.weight");
  for (std::uint32_t i = 0; i < attentions.size(); ++i) {
    AttentionSpec& out = attentions[i];
    if (!out.exists()) continue;
    out.output_gate = family.output_gate;
    std::uint32_t scaled =
        blocks.layers == family.wide_scale_layers ? spec.width / out.heads : out.head_dim;
    if (out.latent) scaled = out.latent->query_dim(out.head_dim);
    const auto usual = static_cast<float>(1.0 / std::sqrt(static_cast<double>(scaled)));
    out.scale = family.score_scale.value_or(usual);
    out.soft_cap = soft_cap;
    out.sinks = sinks;
    out.head_norm = norms ? family.head_norm : HeadNorm::none;
    out.norm_after_rope = norms && family.norm_after_rope;
    out.normed_values = family.normed_values;
    const auto lacks = [&](const char* name) {
      return keys.file().find_tensor("blk." + std::to_string(i) + name) == nullptr;
    };
    out.keys_are_values =
        family.values_may_be_keys && lacks(".attn_v.weight") && lacks(".attn_qkv.weight");
  }
  return attentions;
}

bool rotates(const Family& family, std::uint32_t layer, bool windowed) {
  switch (family.rotated) {
    case RotatedLayers::not_each_fourth:
      return (layer + 1) % 4 != 0;
    case RotatedLayers::windowed:
      return windowed;
    default:
      return true;
  }
}

NormNames norm_names(const Family& family, const FeedForwardSpec& feed_forward) {
  const NormLayout& norms = family.norms;
  NormNames names{.attention = std::string(norms.attention),
                  .attention_post = std::string(norms.attention_post),
                  .feed_forward = std::string(norms.feed_forward),
                  .feed_forward_post = std::string(norms.feed_forward_post)};
  if (feed_forward.has_both()) {
    names.dense_post = norms.dense_post;
    names.experts = norms.experts;
    names.experts_post = norms.experts_post;
  }
  if (!family.one_sublayer) return names;
  names.feed_forward.clear();
  if (feed_forward.exists()) std::swap(names.attention, names.feed_forward);
  return names;
}

Status read_layers(Keys& keys, const Family& family, Blocks blocks, ModelSpec& spec) {
  MILLRACE_ASSIGN(const Windows windows, read_windows(keys, family, blocks, spec.context_tokens));
  MILLRACE_ASSIGN(auto attentions, read_attentions(keys, family, blocks, windows.layers, spec));
  // Heads differ only between layers with and without a window; 0: no layer attends.
  const auto dim_of = [&](bool windowed) {
    std::uint32_t dim = 0;
    for (std::size_t i = 0; i < attentions.size(); ++i) {
      if (!attentions[i].exists()) continue;
      dim = attentions[i].head_dim;
      if (windows.layers[i] == windowed) break;
    }
    return dim;
  };
  MILLRACE_ASSIGN(const Ropes ropes,
                  read_ropes(keys, family, {dim_of(false), dim_of(true)}, spec.context_tokens));
  if (family.latent) MILLRACE_TRY(sharpen_latents(keys, ropes.all, attentions));
  MILLRACE_ASSIGN(const auto feed_forwards, read_feed_forwards(keys, family, blocks));
  MILLRACE_ASSIGN(const auto mixers,
                  read_mixers(keys, family, blocks, spec.width, attentions, feed_forwards));
  for (std::uint32_t i = 0; i < blocks.layers; ++i) {
    LayerSpec layer{.attention = mixers[i].attends ? attentions[i] : AttentionSpec{},
                    .recurrence = mixers[i].recurrence,
                    .feed_forward = feed_forwards[i],
                    .placement = family.norms.placement,
                    .norms = norm_names(family, feed_forwards[i])};
    if (!layer.attention.exists()) {
      spec.layers.push_back(std::move(layer));
      continue;
    }
    const bool windowed = windows.layers[i];
    if (windowed) layer.attention.window = windows.tokens;
    layer.attention.rope = windowed ? ropes.windowed : ropes.all;
    if (!rotates(family, i, windowed)) layer.attention.rope = {.kind = RopeKind::none};
    spec.layers.push_back(std::move(layer));
  }
  return {};
}

// Refuses keys that would change the arithmetic, and ignores those that cannot.
Status refuse_features(Keys& keys, const ModelSpec& spec) {
  MILLRACE_ASSIGN(const bool causal, keys.get_or<bool>("attention.causal", true));
  if (!causal) {
    return unsupported(keys.file(), keys.full("attention.causal") + " = false is not supported");
  }
  MILLRACE_ASSIGN(const auto pooling, keys.get_or<std::uint32_t>("pooling_type", 0));
  if (pooling != 0) {
    return unsupported(keys.file(), keys.full("pooling_type") + " = " + std::to_string(pooling) +
                                        ": models of embeddings and ranks are not supported");
  }
  for (const char* name : {"logit_scale", "residual_scale", "embedding_scale"}) {
    MILLRACE_TRY(keys.refuse_unless_neutral(name, 1.0f));
  }
  const auto attends = std::ranges::find_if(
      spec.layers, [](const LayerSpec& layer) { return layer.attention.exists(); });
  const float scale = attends == spec.layers.end() ? 0.0f : attends->attention.scale;
  const bool one_scale = std::ranges::all_of(spec.layers, [&](const LayerSpec& layer) {
    return !layer.attention.exists() || layer.attention.scale == scale;
  });
  MILLRACE_TRY(keys.refuse_unless_neutral("attention.scale", one_scale ? scale : 0.0f));
  for (const char* name : {"final_logit_softcapping", "attention.clamp_kqv",
                           "attention.max_alibi_bias", "attention.temperature_scale"}) {
    MILLRACE_TRY(keys.refuse_unless_neutral(name, 0.0f));
  }
  for (const char* name : {"vocab_size", "tensor_data_layout"}) keys.ignore(name);
  return keys.refuse_unread();
}

}  // namespace

Result<ModelSpec> read_spec(const GgufFile& file) {
  ModelSpec spec;
  MILLRACE_ASSIGN(const auto architecture,
                  file.metadata().get<std::string_view>("general.architecture"));
  const Family* const family = find_family(architecture);
  if (family == nullptr) {
    return unsupported(file, "architecture \"" + std::string(architecture) + "\" is not supported");
  }
  spec.architecture = architecture;
  MILLRACE_ASSIGN(const auto name,
                  file.metadata().get_or<std::string_view>("general.name", architecture));
  spec.name = name;
  Keys keys(file, architecture);
  MILLRACE_ASSIGN(const Blocks blocks, read_sizes(keys, *family, spec));
  spec.centered_norms = family->centered_norms;
  spec.output_norm = family->output_norm;
  spec.tied_output = file.find_tensor("output.weight") == nullptr;
  if (family->embedding_times_root_width) {
    spec.embedding_scale = static_cast<float>(std::sqrt(static_cast<double>(spec.width)));
  }
  if (family->logit_soft_cap) {
    MILLRACE_ASSIGN(spec.logit_soft_cap,
                    read_soft_cap(keys, "final_logit_softcapping", *family->logit_soft_cap));
  }
  MILLRACE_TRY(read_layers(keys, *family, blocks, spec));
  if (family->finish != nullptr) MILLRACE_TRY(family->finish(keys, spec));
  MILLRACE_TRY(refuse_features(keys, spec));
  MILLRACE_TRY(check_tensors(file, spec, blocks));
  return spec;
}

}  // namespace millrace::engine
