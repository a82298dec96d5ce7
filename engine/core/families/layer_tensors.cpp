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

void add_feed_forward(const ModelSpec& spec, const FeedForwardSpec& feed_forward,
                      std::vector<LayerMatrix>& out) {
  const auto add = [&](std::string_view gate, std::string_view up, std::string_view down,
                       std::uint32_t width, std::uint32_t matrices) {
    out.push_back({gate, spec.width, width, matrices});
    out.push_back({up, spec.width, width, matrices});
    out.push_back({down, width, spec.width, matrices});
  };
  if (!feed_forward.experts) {
    add("ffn_gate", "ffn_up", "ffn_down", feed_forward.width, 1);
    return;
  }
  const ExpertsSpec& experts = *feed_forward.experts;
  out.push_back({"ffn_gate_inp", spec.width, experts.count});
  add("ffn_gate_exps", "ffn_up_exps", "ffn_down_exps", experts.width, experts.count);
  if (experts.shared_width > 0) {
    add("ffn_gate_shexp", "ffn_up_shexp", "ffn_down_shexp", experts.shared_width, 1);
  }
  if (experts.shared_gate) out.push_back({"ffn_gate_inp_shexp", spec.width, 1});
}

struct Names {
  std::set<std::string> needed, allowed;
};

void add_layer(const GgufFile& file, const ModelSpec& spec, std::uint32_t index, Names& names) {
  const std::string prefix = prefix_of(index);
  const LayerSpec& layer = spec.layers[index];
  const auto need = [&](const std::string& name) {
    if (!name.empty()) names.needed.insert(prefix + name + ".weight");
  };
  for (const LayerMatrix& matrix : layer_matrices(file, spec, index)) {
    names.needed.insert(matrix.tensor + ".weight");
    names.allowed.insert(matrix.tensor + ".bias");
    names.allowed.insert(matrix.tensor + ".scale");
    names.allowed.insert(matrix.tensor + ".input_scale");  // for activations in few bits: ignored
  }
  const NormNames& norms = layer.norms;
  for (const auto* name :
       {&norms.attention, &norms.attention_post, &norms.feed_forward, &norms.feed_forward_post}) {
    need(*name);
  }
  if (layer.attention.head_norm != HeadNorm::none) {
    need("attn_q_norm");
    need("attn_k_norm");
  }
  if (layer.attention.sinks) need("attn_sinks");
  const auto& experts = layer.feed_forward.experts;
  if (experts && experts->selection_bias) names.needed.insert(prefix + "exp_probs_b.bias");
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
  const std::uint32_t queries = attention.heads * attention.head_dim;
  const std::uint32_t keys = attention.kv_heads * attention.head_dim;
  std::vector<LayerMatrix> out;
  if (attention.exists()) {
    out = {{"attn_q", spec.width, queries},
           {"attn_k", spec.width, keys},
           {"attn_v", spec.width, keys},
           {"attn_output", queries, spec.width}};
  }
  const std::size_t attention_matrices = out.size();
  add_feed_forward(spec, feed_forward, out);
  const std::string prefix = prefix_of(layer);
  for (LayerMatrix& matrix : out) {
    matrix.tensor = prefix + std::string(matrix.name);
    matrix.tensor_rows = matrix.rows;
  }
  const auto has = [&](const char* name) {
    return file.find_tensor(prefix + name + ".weight") != nullptr;
  };
  if (attention.exists() && has("attn_qkv")) {
    fuse(std::span(out).first(3), prefix + "attn_qkv");
  }
  const std::span<LayerMatrix> ffn = std::span(out).subspan(attention_matrices);
  if (feed_forward.experts && has("ffn_gate_up_exps")) {
    fuse(ffn.subspan(1, 2), prefix + "ffn_gate_up_exps");
  }
  if (!feed_forward.experts && gate_is_in_up(file, prefix, feed_forward.width)) {
    fuse(ffn.first(2), prefix + "ffn_up");
  }
  return out;
}

Status check_tensors(const GgufFile& file, const ModelSpec& spec, Blocks blocks) {
  Names names;
  names.needed = {"token_embd.weight", "output_norm.weight"};
  names.allowed = {"output.weight",
                   "output.scale",
                   "output.input_scale",
                   "rope_freqs.weight",
                   "rope_factors_short.weight",
                   "rope_factors_long.weight"};
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
