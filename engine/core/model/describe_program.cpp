// The text of layer programs.
#include <algorithm>
#include <string>

#include "engine/core/model/layer_program.hpp"
#include "engine/core/model/program_text.hpp"

namespace millrace::engine {
namespace {

constexpr std::size_t slot_column = 10;  // "attended " and "activated"; one is longer

std::string number(double value) {
  std::string text = std::to_string(value);
  text.erase(text.find_last_not_of('0') + 1);
  if (text.ends_with('.')) text.pop_back();
  return text;
}

// "blk.3.attn_q" becomes "attn_q".
std::string short_name(const std::string& tensor) {
  const std::size_t layer = tensor.starts_with("blk.") ? tensor.find('.', 4) + 1 : 0;
  const std::size_t end = tensor.rfind(".weight");
  return tensor.substr(layer, end == std::string::npos ? end : end - layer);
}

std::string matrix_text(const Projection& matrix) {
  std::string names, type;
  for (const WeightTensor& tensor : matrix.tensors) {
    names += (names.empty() ? "" : ", ") + short_name(tensor.name);
    const std::string each(traits_of(tensor.type).name);
    if (!type.ends_with(each)) type += (type.empty() ? "" : ", ") + each;
  }
  return names + " [" + std::to_string(matrix.columns) + " -> " + std::to_string(matrix.rows) +
         ", " + type + (matrix.bias ? ", bias" : "") + "]";
}

std::string rope_text(const RopeSpec& rope) {
  if (rope.kind == RopeKind::none) return "unrotated";
  std::string text = "rotated by " +
                     std::string(rope.kind == RopeKind::pairs ? "pairs" : "halves") + " of " +
                     std::to_string(rope.dim) + " channels, base " + number(rope.base);
  if (rope.linear_factor != 1.0) text += ", positions / " + number(rope.linear_factor);
  if (!rope.divisors.empty()) text += ", divided frequencies";
  if (rope.yarn) text += ", YaRN " + number(rope.yarn->factor);
  return text;
}

std::string attention_text(const AttentionSpec& attention) {
  std::string text = std::to_string(attention.heads) + " heads, " +
                     std::to_string(attention.kv_heads) + " of KV, " +
                     std::to_string(attention.head_dim) + " channels";
  if (attention.window > 0) text += ", window " + std::to_string(attention.window);
  if (attention.soft_cap > 0) text += ", capped at " + number(double{attention.soft_cap});
  if (attention.sinks) text += ", sinks";
  return text;
}

std::string line(Slot out, std::string_view assign, const std::string& what) {
  std::string text = "  " + std::string(slot_name(out));
  text.resize(2 + slot_column, ' ');
  return text + std::string(assign) + " " + what + "\n";
}

std::string_view gate_name(Gate gate) {
  if (gate == Gate::silu) return "silu";
  if (gate == Gate::relu_squared) return "relu squared";
  return gate == Gate::gelu ? "gelu" : "clamped silu";
}

// One operation for people.
struct Describe {
  const LayerSpec& spec;
  std::string operator()(const NormOp& norm) const {
    return line(norm.out, " =",
                norm.weight == nullptr ? "hidden" : "norm(hidden) * " + std::string(norm.name));
  }
  std::string operator()(const ProductOp& product) const {
    return line(product.out, product.accumulate == Accumulate::add ? "+=" : " =",
                std::string(slot_name(product.in)) + " x " + matrix_text(*product.matrix));
  }
  std::string operator()(const TurnOp&) const {
    return line(Slot::qkv, " =", "queries and keys " + rope_text(spec.attention.rope));
  }
  std::string operator()(const QueryScaleOp&) const {
    return line(Slot::qkv, " =", "queries times the factors of their positions");
  }
  std::string operator()(const HeadNormOp&) const {
    const bool whole = spec.attention.head_norm == HeadNorm::whole_width;
    const AttentionSpec& attention = spec.attention;
    std::string text = whole ? "norms of all queries and of all keys" : "norms of each query";
    if (!whole && attention.stores())
      text += attention.normed_values ? ", key and value" : " and key";
    if (attention.keys_are_values) text += "; values are keys";
    return line(Slot::qkv, " =", text);
  }
  std::string operator()(const SplitOp& split) const {
    const std::string key = "key = [channels that rotate, norm(latent) * attn_kv_a_norm]";
    if (split.weights->query_b.runs.empty()) return line(Slot::qkv, " =", key);
    return line(Slot::query_latent, " =", "norm(latent of queries) * attn_q_a_norm; " + key);
  }
  std::string operator()(const HeadProductOp& heads) const {
    const ExpertMatrix& matrix = *heads.matrix;
    return line(heads.out, " =",
                (heads.out == Slot::qkv ? "[channels that rotate, " : "") +
                    std::string(slot_name(heads.in)) + " x " + short_name(matrix.tensors[0].name) +
                    " of each head [" + std::to_string(matrix.columns) + " -> " +
                    std::to_string(matrix.rows) + ", " +
                    std::string(traits_of(matrix.tensors[0].type).name) + "]" +
                    (heads.out == Slot::qkv ? "]" : ""));
  }
  std::string operator()(const StoreOp&) const {
    if (const auto& owner = spec.attention.cache_of) {
      return "  cache      = that of layer " + std::to_string(*owner) + "; queries " +
             rope_text(spec.attention.rope) + "\n";
    }
    return "  cache      = keys" +
           (spec.attention.norm_after_rope ? "" : " " + rope_text(spec.attention.rope)) +
           (spec.attention.latent ? ", whose latents are the values\n" : "; values\n");
  }
  std::string operator()(const AttendOp& attend) const {
    return line(attend.out, " =",
                "attention of queries over the cache: " + attention_text(spec.attention));
  }
  std::string operator()(const GateOutputOp&) const {
    return line(Slot::attended, "*=", "sigmoid of the gates in qkv");
  }
  std::string operator()(const RecurrenceOp&) const {
    const RecurrenceSpec& of = spec.recurrence;
    const std::string taps = std::to_string(of.taps) + " taps";
    if (of.kind == RecurrenceKind::convolution) {
      return line(Slot::attended, " =", "gated convolution of " + taps);
    }
    return line(Slot::attended, " =",
                std::string(of.kind == RecurrenceKind::delta_net ? "gated delta net" : "Mamba 2") +
                    ": " + std::to_string(of.heads) + " heads, " + std::to_string(of.key_heads) +
                    " of keys, states of " + std::to_string(of.key_dim) + " by " +
                    std::to_string(of.value_dim) + ", convolution of " + taps);
  }
  std::string operator()(const GatedOp& gated) const {
    return line(Slot::activated, " =",
                std::string(gate_name(spec.feed_forward.gate)) +
                    (has_gate(spec.feed_forward.gate) ? "(gate) * up" : "(up)") + " of normed x " +
                    matrix_text(*gated.matrix));
  }
  std::string operator()(const EmbeddingGateOp& gate) const {
    return line(Slot::activated, " =",
                std::string(gate_name(spec.feed_forward.gate)) +
                    "(gate) * the layer's embedding, " + "gate normed x " +
                    matrix_text(*gate.matrix));
  }
  std::string operator()(const ExpertsOp& op) const {
    const ExpertsSpec& experts = *spec.feed_forward.experts;
    const std::string scale = op.scale == 1.0f ? "" : number(double{op.scale}) + " * ";
    return line(op.out, op.out == Slot::hidden ? "+=" : " =",
                scale + "the best " + std::to_string(experts.used) + " of " +
                    std::to_string(experts.count) + " experts of normed, " +
                    std::to_string(experts.width) + " wide" + (op.shared ? ", and branch" : ""));
  }
  std::string operator()(const AddOp& add) const {
    const std::string from(slot_name(add.from));
    const std::string term =
        add.weight == nullptr ? from : "norm(" + from + ") * " + std::string(add.name);
    return line(add.to, add.accumulate == Accumulate::add ? "+=" : " =",
                (add.scale == 1.0f ? "" : number(double{add.scale}) + " * ") + term +
                    (add.total == nullptr ? "" : "; all times layer_output_scale"));
  }
};

std::string layer_text(const LayerProgram& layer) {
  std::string text;
  for (const LayerOp& operation : layer.operations) {
    text += std::visit(Describe{*layer.spec}, operation);
  }
  return text;
}

}  // namespace

std::string_view slot_name(Slot slot) {
  constexpr std::string_view names[] = {"hidden",    "normed",       "qkv",     "attended",
                                        "activated", "branch",       "routed",  "mixed",
                                        "latents",   "query_latent", "queries", "summed"};
  return names[static_cast<std::size_t>(slot)];
}

std::string program_text(const ModelSpec& spec, std::span<const LayerProgram> layers,
                         const Projection& embedding, const Projection& head) {
  std::string text = spec.name + " (" + spec.architecture +
                     "): " + std::to_string(spec.layer_count()) + " layers, " +
                     std::to_string(spec.width) + " wide\n";
  text += line(Slot::hidden, " =",
               (spec.embedding_scale == 1.0f ? "" : number(double{spec.embedding_scale}) + " * ") +
                   "row of " + matrix_text(embedding));
  for (std::size_t first = 0; first < layers.size();) {
    const std::string layer = layer_text(layers[first]);
    std::size_t end = first + 1;
    while (end < layers.size() && layer_text(layers[end]) == layer) ++end;
    text += end - first == 1
                ? "layer " + std::to_string(first) + "\n"
                : "layers " + std::to_string(first) + " to " + std::to_string(end - 1) + "\n";
    text += layer;
    first = end;
  }
  text += "output\n" + line(Slot::normed, " =", "norm(hidden) * " + spec.output_norm);
  std::string logits = "normed x " + matrix_text(head);
  if (spec.logit_scale != 1.0f) logits += " * " + number(double{spec.logit_scale});
  if (spec.logit_soft_cap > 0) logits += ", capped at " + number(double{spec.logit_soft_cap});
  return text + "  logits     = " + logits + "\n";
}

}  // namespace millrace::engine
