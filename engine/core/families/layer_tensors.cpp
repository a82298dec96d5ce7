#include "engine/core/families/layer_tensors.hpp"

#include <algorithm>
#include <charconv>
#include <optional>
#include <set>
#include <span>

namespace millrace::engine {
namespace {

std::string prefix_of(std::uint32_t layer) {
  return "blk." + std::to_string(layer) + ".";
}

void fuse(std::span<LayerMatrix> parts, const std::string& tensor) {
  std::uint32_t total = 0;
  for (LayerMatrix& part : parts) {
    part.tensor = tensor;
    part.first_row = total;
    total += part.rows;
  }
  for (LayerMatrix& part : parts) part.tensor_rows = total;
}

// Whether the file has no gate and twice the rows in its place.
bool gate_is_in_up(const GgufFile& file, const std::string& prefix, std::uint32_t width) {
  const Tensor* const up = file.find_tensor(prefix + "ffn_up.weight");
  return up != nullptr && file.find_tensor(prefix + "ffn_gate.weight") == nullptr &&
         up->rows() == std::uint64_t{2} * width;
}

void add_latent_attention(std::uint32_t width, const AttentionSpec& attention,
                          std::vector<LayerMatrix>& out) {
  const LatentSpec& latent = *attention.latent;
  const std::uint32_t heads = attention.heads;
  const std::uint32_t queries = heads * latent.query_dim(attention.head_dim);
  out.push_back({"attn_kv_a_mqa", width, attention.head_dim});
  out.push_back({"attn_k_b", latent.plain_dim, latent.rank, heads});
  out.push_back({"attn_v_b", latent.rank, latent.value_dim, heads});
  out.push_back({"attn_output", attention.columns(), width});
  if (latent.query_rank == 0) {
    out.push_back({"attn_q", width, queries});
  } else {
    out.push_back({"attn_q_a", width, latent.query_rank});
    out.push_back({"attn_q_b", latent.query_rank, queries});
  }
}

void add_attention(const ModelSpec& spec, const AttentionSpec& attention,
                   std::vector<LayerMatrix>& out) {
  if (attention.latent) return add_latent_attention(spec.width, attention, out);
  const std::uint32_t queries = attention.heads * attention.head_dim;
  const std::uint32_t keys = attention.kv_heads * attention.head_dim;
  out.push_back({"attn_q", spec.width, attention.output_gate ? 2 * queries : queries});
  if (attention.stores()) out.push_back({"attn_k", spec.width, keys});
  if (attention.stores() && !attention.keys_are_values) {
    out.push_back({"attn_v", spec.width, keys});
  }
  out.push_back({"attn_output", queries, spec.width});
}

void add_recurrence(const ModelSpec& spec, const RecurrenceSpec& recurrence,
                    std::vector<LayerMatrix>& out) {
  const auto add = [&](std::string_view name, std::uint32_t rows) {
    out.push_back({name, spec.width, rows});
  };
  const std::uint32_t heads = recurrence.heads, values = recurrence.values();
  switch (recurrence.kind) {
    case RecurrenceKind::none:
      return;
    case RecurrenceKind::convolution:
      add("shortconv.in_proj", 3 * recurrence.channels);
      out.push_back({"shortconv.out_proj", recurrence.channels, spec.width});
      return;
    case RecurrenceKind::delta_net:
      add("attn_qkv", recurrence.channels);
      add("attn_gate", values);
      if (recurrence.gates_by_key_head) {
        add("ssm_ba", 2 * heads);
      } else {
        add("ssm_beta", heads);
        add("ssm_alpha", heads);
      }
      break;
    case RecurrenceKind::mamba2:
      add("ssm_in", values + recurrence.channels + heads);
  }
  out.push_back({"ssm_out", values, spec.width});
}

// The other tensors of a recurrence.
std::vector<std::string_view> vectors_of(const RecurrenceSpec& recurrence) {
  if (recurrence.kind == RecurrenceKind::none) return {};
  if (recurrence.kind == RecurrenceKind::convolution) return {"shortconv.conv.weight"};
  std::vector<std::string_view> out{"ssm_conv1d.weight", "ssm_dt.bias", "ssm_a"};
  if (recurrence.kind == RecurrenceKind::mamba2) {
    out.insert(out.end(), {"ssm_conv1d.bias", "ssm_d"});
  }
  if (recurrence.normed) out.emplace_back("ssm_norm.weight");
  return out;
}

void add_feed_forward(const ModelSpec& spec, const FeedForwardSpec& feed_forward,
                      std::vector<LayerMatrix>& out) {
  const auto add = [&](std::string_view gate, std::string_view up, std::string_view down,
                       std::uint32_t width, std::uint32_t matrices) {
    if (has_gate(feed_forward.gate)) out.push_back({gate, spec.width, width, matrices});
    out.push_back({up, spec.width, width, matrices});
    out.push_back({down, width, spec.width, matrices});
  };
  if (feed_forward.width > 0) add("ffn_gate", "ffn_up", "ffn_down", feed_forward.width, 1);
  if (!feed_forward.experts) return;
  const ExpertsSpec& experts = *feed_forward.experts;
  out.push_back({"ffn_gate_inp", spec.width, experts.count});
  add("ffn_gate_exps", "ffn_up_exps", "ffn_down_exps", experts.width, experts.count);
  if (experts.shared_width > 0) {
    add("ffn_gate_shexp", "ffn_up_shexp", "ffn_down_shexp", experts.shared_width, 1);
  }
  if (experts.shared_gate) out.push_back({"ffn_gate_inp_shexp", spec.width, 1});
}

// `count` matrices from the one of this name on.
std::span<LayerMatrix> from(std::vector<LayerMatrix>& all, std::string_view name,
                            std::size_t count) {
  const auto found = std::ranges::find(all, name, &LayerMatrix::name);
  return {found, found + static_cast<std::ptrdiff_t>(count)};
}

struct Names {
  std::set<std::string> needed, allowed;
};

void add_layer(const GgufFile& file, const ModelSpec& spec, std::uint32_t index, Names& names) {
  const std::string prefix = prefix_of(index);
  const LayerSpec& layer = spec.layers[index];
  const auto need = [&](const std::string& name) {
    if (!name.empty()) names.needed.insert(norm_tensor(file, index, name));
  };
  for (const LayerMatrix& matrix : layer_matrices(file, spec, index)) {
    names.needed.insert(matrix.tensor + ".weight");
    names.allowed.insert(matrix.tensor + ".bias");
    names.allowed.insert(matrix.tensor + ".scale");
    names.allowed.insert(matrix.tensor + ".input_scale");  // for activations in few bits: ignored
  }
  const NormNames& norms = layer.norms;
  for (const auto* name :
       {&norms.attention, &norms.attention_post, &norms.feed_forward, &norms.feed_forward_post,
        &norms.dense_post, &norms.experts, &norms.experts_post}) {
    need(*name);
  }
  for (const std::string_view name : vectors_of(layer.recurrence)) {
    names.needed.insert(prefix + std::string(name));
  }
  const bool norms_heads = layer.attention.head_norm != HeadNorm::none;
  if (norms_heads) names.needed.insert(prefix + "attn_q_norm.weight");
  if (norms_heads && layer.attention.stores()) names.needed.insert(prefix + "attn_k_norm.weight");
  if (layer.attention.cache_of) {  // some files have what training left behind
    for (const char* name : {"attn_k", "attn_v", "attn_k_norm"}) {
      names.allowed.insert(prefix + name + ".weight");
    }
  }
  if (layer.output_scale) names.needed.insert(prefix + "layer_output_scale.weight");
  if (spec.layer_embedding > 0) names.needed.insert(prefix + "post_norm.weight");
  if (layer.attention.sinks) names.needed.insert(prefix + "attn_sinks.weight");
  if (layer.attention.latent) {
    names.needed.insert(prefix + "attn_kv_a_norm.weight");
    if (layer.attention.latent->query_rank > 0) {
      names.needed.insert(prefix + "attn_q_a_norm.weight");
    }
  }
  const auto& experts = layer.feed_forward.experts;
  if (experts && experts->selection_bias) names.needed.insert(prefix + "exp_probs_b.bias");
  if (experts && experts->router_norm) names.needed.insert(prefix + "ffn_gate_inp.scale");
  if (experts && experts->expert_scales) names.needed.insert(prefix + "ffn_down_exps.scale");
}

// The block that a tensor belongs to, if the name says one.
std::optional<std::uint32_t> block_of(std::string_view name) {
  if (!name.starts_with("blk.")) return {};
  const auto dot = name.find('.', 4);
  if (dot == std::string_view::npos) return {};
  std::uint32_t block = 0;
  const auto parsed = std::from_chars(name.data() + 4, name.data() + dot, block);
  if (parsed.ec != std::errc() || parsed.ptr != name.data() + dot) return {};
  return block;
}

bool is_of_drafts(std::string_view name, Blocks blocks) {
  if (blocks.all == blocks.layers) return false;
  const auto block = block_of(name);
  return block ? *block >= blocks.layers && *block < blocks.all : name.starts_with("nextn.");
}

}  // namespace

std::vector<LayerMatrix> layer_matrices(const GgufFile& file, const ModelSpec& spec,
                                        std::uint32_t layer) {
  const AttentionSpec& attention = spec.layers[layer].attention;
  const FeedForwardSpec& feed_forward = spec.layers[layer].feed_forward;
  std::vector<LayerMatrix> out;
  if (attention.exists()) add_attention(spec, attention, out);
  add_recurrence(spec, spec.layers[layer].recurrence, out);
  add_feed_forward(spec, feed_forward, out);
  if (spec.layer_embedding > 0) {
    out.push_back({"inp_gate", spec.width, spec.layer_embedding});
    out.push_back({"proj", spec.layer_embedding, spec.width});
  }
  const std::string prefix = prefix_of(layer);
  for (LayerMatrix& matrix : out) {
    matrix.tensor = prefix + std::string(matrix.name);
    matrix.tensor_rows = matrix.rows;
  }
  const auto has = [&](const char* name) {
    return file.find_tensor(prefix + name + ".weight") != nullptr;
  };
  if (attention.exists() && !attention.latent && has("attn_qkv")) {
    const std::size_t stacked = !attention.stores() ? 1 : attention.keys_are_values ? 2 : 3;
    fuse(from(out, "attn_q", stacked), prefix + "attn_qkv");
  }
  if (!feed_forward.exists() || !has_gate(feed_forward.gate)) return out;
  if (feed_forward.experts && has("ffn_gate_up_exps")) {
    fuse(from(out, "ffn_gate_exps", 2), prefix + "ffn_gate_up_exps");
  }
  if (feed_forward.width > 0 && gate_is_in_up(file, prefix, feed_forward.width)) {
    fuse(from(out, "ffn_gate", 2), prefix + "ffn_up");
  }
  return out;
}

std::string norm_tensor(const GgufFile& file, std::uint32_t layer, const std::string& name) {
  const std::string bare = prefix_of(layer) + name;
  return file.find_tensor(bare) != nullptr ? bare : bare + ".weight";
}

Status check_tensors(const GgufFile& file, const ModelSpec& spec, Blocks blocks) {
  Names names;
  names.needed = {"token_embd.weight", spec.output_norm + ".weight"};
  names.allowed = {"output.weight",
                   "output.scale",
                   "output.input_scale",
                   "rope_freqs.weight",
                   "rope_factors_short.weight",
                   "rope_factors_long.weight"};
  if (spec.layer_embedding > 0) {
    for (const char* name :
         {"per_layer_token_embd", "per_layer_model_proj", "per_layer_proj_norm"}) {
      names.needed.insert(std::string(name) + ".weight");
    }
  }
  for (std::uint32_t i = 0; i < spec.layer_count(); ++i) add_layer(file, spec, i, names);
  for (const Tensor& tensor : file.tensors()) {
    const std::string name(tensor.name);
    if (names.needed.contains(name) || names.allowed.contains(name)) continue;
    if (is_of_drafts(name, blocks)) continue;
    return unsupported(file, "tensor \"" + name + "\" belongs to no " + spec.architecture +
                                 " model of " + std::to_string(spec.layer_count()) + " layers");
  }
  for (const std::string& name : names.needed) {
    if (auto tensor = file.tensor(name); !tensor) return std::unexpected(tensor.error());
  }
  return {};
}

}  // namespace millrace::engine
