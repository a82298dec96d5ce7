#include "engine/core/model/backend/target.hpp"

#include <algorithm>

#include "engine/core/model/program_text.hpp"

namespace millrace::engine {
namespace {

std::vector<std::string> head_defines(const AttentionSpec& attention) {
  return {define("HEAD_DIM", attention.head_dim), define("HEADS", attention.heads),
          define("KV_HEADS", attention.kv_heads)};
}

AttentionKind kind_for(const AttentionSpec& attention) {
  const RopeSpec& rope = attention.rope;
  const bool rotates = rope.kind != RopeKind::none && !attention.norm_after_rope;
  return {.window = attention.window,
          .soft_cap = attention.soft_cap,
          .sinks = attention.sinks,
          .halves = rope.kind == RopeKind::halves,
          .rope_dim = rotates ? rope.dim : 0,
          .scale = attention.scale};
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
    const AttentionKind kind = kind_for(layer.attention);
    if (std::ranges::find(kinds, kind) == kinds.end()) kinds.push_back(kind);
    if (std::ranges::find(windows, kind.window) == windows.end()) windows.push_back(kind.window);
  }
}

void Target::set_qkv(const Projection& qkv) {
  qkv_stride = qkv.rows;
  layer_defines = head_defines(spec.attention());
  layer_defines.push_back(define("K_ROW", qkv.first[1]));
  layer_defines.push_back(define("V_ROW", qkv.first[2]));
  layer_defines.push_back(define("ROW_ITEMS", device->row_items()));
}

std::uint32_t Target::kind_of(const AttentionSpec& attention) const {
  return static_cast<std::uint32_t>(std::ranges::find(kinds, kind_for(attention)) - kinds.begin());
}

std::uint32_t Target::window_of(std::uint32_t kind) const {
  return static_cast<std::uint32_t>(std::ranges::find(windows, kinds[kind].window) -
                                    windows.begin());
}

float Target::inverse_width() const {
  return static_cast<float>(1.0 / static_cast<double>(spec.width));
}

// All layers of a model have one gate function.
std::string Target::gate_define() const {
  return define("GATE", static_cast<std::uint64_t>(spec.layers.front().feed_forward.gate));
}

std::vector<std::string> Target::attention_defines(std::uint32_t kind) const {
  std::vector<std::string> out = layer_defines;
  out.push_back(define("ROPE_DIM", kinds[kind].rope_dim));
  out.push_back(define("ROPE_HALVES", kinds[kind].halves ? 1 : 0));
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
}

}  // namespace millrace::engine
