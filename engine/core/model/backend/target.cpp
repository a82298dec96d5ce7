#include "engine/core/model/backend/target.hpp"

#include <algorithm>

#include "engine/core/model/program_text.hpp"

namespace millrace::engine {
namespace {

AttentionKind kind_for(const AttentionSpec& attention) {
  const RopeSpec& rope = attention.rope;
  const std::uint32_t turned = rope.kind == RopeKind::none ? 0 : rope.dim;
  return {.heads = attention.heads,
          .kv_heads = attention.kv_heads,
          .head_dim = attention.head_dim,
          .window = attention.window,
          .soft_cap = attention.soft_cap,
          .sinks = attention.sinks,
          .halves = rope.kind == RopeKind::halves,
          .rope_dim = attention.norm_after_rope ? 0 : turned,
          .turn_dim = attention.norm_after_rope ? turned : 0,
          .head_norm = attention.head_norm,
          .output_gate = attention.output_gate,
          .latent = attention.latent ? attention.latent->rank : 0,
          .stores = attention.stores(),
          .normed_values = attention.normed_values,
          .keys_are_values = attention.keys_are_values,
          .scale = attention.scale};
}

AttentionCut cut_for(const AttentionKind& kind) {
  return {kind.window, kind.heads, kind.kv_heads, kind.latent > 0};
}

}  // namespace

Target::Target(Device& on, const ModelSpec& model, MathMode mode, KernelVariant chosen,
               const std::optional<kernels::Tuning>& tuned)
    : device(&on),
      spec(model),
      math(mode),
      tuning(tuned ? *tuned : kernels::tuned_for(tuning_key(on))),
      variant(chosen) {
  if (variant.sums == 0) variant.sums = tuning.attention_sums;
  for (const LayerSpec& layer : spec.layers) {
    if (!layer.attention.exists()) continue;
    const AttentionKind kind = kind_for(layer.attention);
    if (std::ranges::find(kinds, kind) == kinds.end()) kinds.push_back(kind);
    const AttentionCut cut = cut_for(kind);
    if (std::ranges::find(cuts, cut) == cuts.end()) cuts.push_back(cut);
  }
}

std::vector<std::string> Target::code_defines() const {
  return {define("CODE_HALVES", code_form == CodeForm::halves ? 1 : 0),
          define("MATRIX_UNIT", device->info().has_matrix_unit() ? 1 : 0)};
}

std::uint32_t Target::kind_of(const AttentionSpec& attention) const {
  return static_cast<std::uint32_t>(std::ranges::find(kinds, kind_for(attention)) - kinds.begin());
}

std::uint32_t Target::cut_of(std::uint32_t kind) const {
  return static_cast<std::uint32_t>(std::ranges::find(cuts, cut_for(kinds[kind])) - cuts.begin());
}

std::vector<std::uint32_t> Target::windows() const {
  std::vector<std::uint32_t> out;
  for (const AttentionCut& cut : cuts) out.push_back(cut.window);
  return out;
}

float Target::inverse_width() const {
  return static_cast<float>(1.0 / static_cast<double>(spec.width));
}

// All layers of a model have one gate function.
std::string Target::gate_define() const {
  return define("GATE", static_cast<std::uint64_t>(spec.layers.front().feed_forward.gate));
}

std::vector<std::string> Target::head_defines(std::uint32_t kind) const {
  const AttentionKind& shape = kinds[kind];
  std::vector<std::string> out{
      define("HEAD_DIM", shape.head_dim), define("HEADS", shape.heads),
      define("KV_HEADS", shape.kv_heads), define("K_ROW", shape.k_row()),
      define("V_ROW", shape.v_row()),     define("ROW_ITEMS", device->row_items())};
  if (shape.latent == 0) return out;
  out.push_back(define("VALUE_DIM", shape.latent));
  out.push_back(define("VALUE_FIRST", shape.head_dim - shape.latent));
  return out;
}

std::vector<std::string> Target::attention_defines(std::uint32_t kind) const {
  std::vector<std::string> out = head_defines(kind);
  out.push_back(define("ROPE_DIM", kinds[kind].rope_dim));
  out.push_back(define("ROPE_HALVES", kinds[kind].halves ? 1 : 0));
  return out;
}

std::vector<std::string> Target::head_norm_defines(std::uint32_t kind) const {
  const AttentionKind& of = kinds[kind];
  std::vector<std::string> out{define("NORM_WHOLE", of.head_norm == HeadNorm::whole_width ? 1 : 0)};
  if (!of.stores) out.emplace_back("NORM_KEYS=0");
  if (of.stores && of.normed_values)
    out.push_back(define("NORM_VALUES", of.keys_are_values ? 2 : 1));
  return out;
}

// Constants of features that the model lacks stay undefined, so its kernels do not contain these
// features.
void Target::add_attention_shape(ProgramSpec& program, std::uint32_t kind) const {
  const AttentionKind& shape = kinds[kind];
  if (shape.window > 0) program.defines.push_back(define("WINDOW", shape.window));
  if (shape.soft_cap > 0) {
    program.defines.push_back("SOFT_CAP=" + float_text(static_cast<double>(shape.soft_cap)));
  }
  if (shape.sinks) program.defines.emplace_back("SINKS=1");
  if (!shape.stores) program.defines.emplace_back("STORES=0");
}

}  // namespace millrace::engine
