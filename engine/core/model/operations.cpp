#include "engine/core/model/operations.hpp"

#include <algorithm>
#include <bit>
#include <utility>

#include "engine/core/model/program_text.hpp"
#include "kernels/attention/work.h"

namespace millrace::engine {
namespace {

std::vector<std::string> head_defines(const AttentionSpec& attention) {
  return {define("HEAD_DIM", attention.head_dim), define("HEADS", attention.heads),
          define("KV_HEADS", attention.kv_heads)};
}

}  // namespace

kernels::DeviceKey tuning_key(const Device& device) {
  return {.family = family_name(device.family()),
          .device = device.info().name,
          .dot = dot_name(device.dot()),
          .lanes = device.info().vector_width_float};
}

Operations::Operations(Device& device, const ModelSpec& spec, MathMode math,
                       AttentionVariant variant, const std::optional<kernels::Tuning>& tuning)
    : device_(&device),
      spec_(spec),
      math_(math),
      tuning_(tuning ? *tuning : kernels::tuned_for(tuning_key(device))),
      variant_(variant) {
  if (variant_.sums == 0) variant_.sums = tuning_.attention_sums;
  for (const LayerSpec& layer : spec.layers) {
    const AttentionKind kind = kind_for(layer.attention);
    if (std::ranges::find(kinds_, kind) == kinds_.end()) kinds_.push_back(kind);
    if (std::ranges::find(windows_, kind.window) == windows_.end()) {
      windows_.push_back(kind.window);
    }
  }
  if (device.family() != Family::cpu) return;
  const AttentionSpec& attention = spec_.attention();
  // A tile has as many queries as there are registers for their sums, so that they share each key
  // and value that is loaded. It has at least two tokens, because the kernel for decoding rows
  // computes tiles of one.
  const std::uint32_t tile = variant_.sums * attention.kv_heads / attention.heads;
  attention_ = {.tile_tokens = std::max(2u, tile),
                .workers = device.info().compute_units,
                .kv_heads = attention.kv_heads};
}

Operations::AttentionKind Operations::kind_for(const AttentionSpec& attention) {
  const RopeSpec& rope = attention.rope;
  const bool rotates = rope.kind != RopeKind::none && !attention.norm_after_rope;
  return {.window = attention.window,
          .soft_cap = attention.soft_cap,
          .sinks = attention.sinks,
          .halves = rope.kind == RopeKind::halves,
          .rope_dim = rotates ? rope.dim : 0,
          .scale = attention.scale};
}

std::uint32_t Operations::kind_of(const AttentionSpec& attention) const {
  return static_cast<std::uint32_t>(std::ranges::find(kinds_, kind_for(attention)) -
                                    kinds_.begin());
}

std::uint32_t Operations::window_of(std::uint32_t kind) const {
  return static_cast<std::uint32_t>(std::ranges::find(windows_, kinds_[kind].window) -
                                    windows_.begin());
}

std::vector<std::string> Operations::attention_defines(std::uint32_t kind) const {
  std::vector<std::string> out = layer_defines_;
  out.push_back(define("ROPE_DIM", kinds_[kind].rope_dim));
  out.push_back(define("ROPE_HALVES", kinds_[kind].halves ? 1 : 0));
  return out;
}

float Operations::inverse_width() const {
  return static_cast<float>(1.0 / static_cast<double>(spec_.width));
}

// All layers of a model have one gate function.
std::string Operations::gate_define() const {
  return define("GATE", static_cast<std::uint64_t>(spec_.layers.front().feed_forward.gate));
}

// Of the kernels that go along rows.
std::vector<std::string> Operations::row_defines() const {
  std::vector<std::string> out{define("ROW_ITEMS", row_items()), gate_define()};
  if (spec_.centered_norms) out.push_back(define("NORM_CENTERED", 1));
  return out;
}

Status Operations::prepare_embedding(const Projection& embedding) {
  const PanelLayout layout{embedding.runs[0].format, embedding.columns};
  std::vector<std::string> defines = layout.defines();
  defines.push_back(define("WIDTH", embedding.columns));
  defines.push_back(define("ROW_ITEMS", row_items()));
  MILLRACE_ASSIGN(const Program program, device_->build({.name = "embed",
                                                         .sources = {"embed/embed.cl"},
                                                         .defines = std::move(defines)}));
  MILLRACE_ASSIGN(embed_, device_->kernel(program, "embed"));
  return {};
}

Status Operations::prepare_layer(const Projection& qkv) {
  qkv_stride_ = qkv.rows;
  layer_defines_ = head_defines(spec_.attention());
  layer_defines_.push_back(define("K_ROW", qkv.first[1]));
  layer_defines_.push_back(define("V_ROW", qkv.first[2]));
  layer_defines_.push_back(define("ROW_ITEMS", row_items()));
  MILLRACE_ASSIGN(const Program built,
                  device_->build({.name = "layer",
                                  .sources = {"norm/rms.cl", "activation/gated.cl"},
                                  .defines = row_defines()}));
  MILLRACE_ASSIGN(norm_, device_->kernel(built, "rms_norm"));
  MILLRACE_ASSIGN(gated_mul_, device_->kernel(built, "gated_mul"));
  MILLRACE_TRY(prepare_norms());
  MILLRACE_TRY(prepare_queries());
  if (math_ == MathMode::fast) {
    MILLRACE_ASSIGN(const Program quantizing, device_->build({.name = "quantize",
                                                              .sources = {"quantize/quantize.cl"},
                                                              .defines = row_defines()}));
    MILLRACE_ASSIGN(norm_quantize_, device_->kernel(quantizing, "rms_norm_quantize"));
    MILLRACE_ASSIGN(gated_mul_quantize_, device_->kernel(quantizing, "gated_mul_quantize"));
    MILLRACE_ASSIGN(quantize_, device_->kernel(quantizing, "quantize_rows"));
  }
  return {};
}

// Compiles the norms that only some families have.
Status Operations::prepare_norms() {
  const auto any = [&](const auto& has) { return std::ranges::any_of(spec_.layers, has); };
  const auto norms_heads = [](const LayerSpec& layer) {
    return layer.attention.head_norm != HeadNorm::none;
  };
  if (any(norms_heads)) {
    std::vector<std::string> defines = layer_defines_;
    const HeadNorm kind = std::ranges::find_if(spec_.layers, norms_heads)->attention.head_norm;
    defines.push_back(define("NORM_WHOLE", kind == HeadNorm::whole_width ? 1 : 0));
    MILLRACE_ASSIGN(const Program built, device_->build({.name = "head_norm",
                                                         .sources = {"norm/heads.cl"},
                                                         .defines = std::move(defines)}));
    MILLRACE_ASSIGN(norm_heads_, device_->kernel(built, "norm_heads"));
  }
  // The layers whose sublayers are normed or scaled before they join the residual stream.
  if (any([](const LayerSpec& layer) {
        return layer.placement == NormPlacement::after ||
               layer.placement == NormPlacement::before_and_after || layer.residual_scale != 1.0f;
      })) {
    MILLRACE_ASSIGN(const Program built,
                    device_->build({.name = "add",
                                    .sources = {"norm/add.cl"},
                                    .defines = {define("ROW_ITEMS", row_items())}}));
    MILLRACE_ASSIGN(add_branch_, device_->kernel(built, "add_branch"));
  }
  return {};
}

// Compiles what some families do to queries and keys before attention.
Status Operations::prepare_queries() {
  const AttentionSpec& attention = spec_.attention();
  if (attention.norm_after_rope) {
    std::vector<std::string> defines = layer_defines_;
    defines.push_back(define("TURN_DIM", attention.rope.dim));
    defines.push_back(define("TURN_HALVES", attention.rope.kind == RopeKind::halves ? 1 : 0));
    MILLRACE_ASSIGN(const Program built, device_->build({.name = "turn",
                                                         .sources = {"rope/in_place.cl"},
                                                         .defines = std::move(defines)}));
    MILLRACE_ASSIGN(turn_heads_, device_->kernel(built, "turn_heads"));
  }
  if (attention.temperature_beta == 0.0f) return {};
  MILLRACE_ASSIGN(const Program built, device_->build({.name = "temperature",
                                                       .sources = {"rope/temperature.cl"},
                                                       .defines = layer_defines_}));
  MILLRACE_ASSIGN(scale_queries_, device_->kernel(built, "scale_queries"));
  return {};
}

Status Operations::prepare_logits() {
  if (spec_.logit_scale == 1.0f && spec_.logit_soft_cap == 0.0f) return {};
  ProgramSpec program{.name = "logits",
                      .sources = {"logits/limit.cl"},
                      .defines = {define("ROW_ITEMS", row_items())}};
  if (spec_.logit_soft_cap > 0.0f) {
    program.defines.push_back("SOFT_CAP=" + float_text(static_cast<double>(spec_.logit_soft_cap)));
  }
  MILLRACE_ASSIGN(const Program built, device_->build(program));
  MILLRACE_ASSIGN(limit_logits_, device_->kernel(built, "limit_logits"));
  return {};
}

Status Operations::embed(const Projection& embedding, const StepTable& step,
                         const Buffer& step_words, const Buffer& device_ids, const Buffer& hidden) {
  for (const WeightRun& run : embedding.runs) {
    MILLRACE_TRY(
        device_->launch(embed_, {.groups = {step.tokens}, .local = {row_items()}},
                        {run.buffer, step_words, device_ids, hidden, step.ids_at, step.slots_at,
                         run.first_row, run.panels * panel_rows, spec_.vocabulary,
                         input_stride(spec_.width), spec_.embedding_scale}));
  }
  return {};
}

Status Operations::norm(const Buffer& x, const Buffer& weight, const Activation& out, Forms forms,
                        const StepTable& step, const Buffer& step_words, bool gather) {
  const std::uint32_t stride = input_stride(spec_.width);
  const Grid grid{.groups = {gather ? step.outputs : step.tokens}, .local = {row_items()}};
  if (forms.rows) {
    MILLRACE_TRY(device_->launch(
        norm_, grid,
        {x, weight, out.rows, step_words, step.outputs_at, gather ? 1u : 0u,
         round_up(spec_.width, 16) / 16, stride, stride, inverse_width(), spec_.norm_epsilon}));
  }
  if (!forms.codes) return {};
  return device_->launch(norm_quantize_, grid,
                         {x, weight, out.codes, step_words, step.outputs_at, gather ? 1u : 0u,
                          spec_.width / block_columns, stride, code_stride(spec_.width),
                          inverse_width(), spec_.norm_epsilon});
}

// Allocates memory for the units of a step. The driver keeps the old buffers until their commands
// are done.
Status Operations::reserve_scratch(const StepTable& step) {
  const AttentionSpec& heads = spec_.attention();
  // Of the larger tiles.
  const std::uint64_t rows = std::uint64_t{attention_.tile_tokens} * (heads.heads / heads.kv_heads);
  const std::uint64_t record = RECORD_VECTORS_OF(rows, heads.head_dim) * 16 * sizeof(float);
  std::uint32_t most_partials = 0, most_counters = 0;
  for (const AttentionItems& items : step.attention) {
    most_partials = std::max(most_partials, items.partials);
    most_counters = std::max(most_counters, items.counters);
  }
  const std::uint64_t partials = most_partials * heads.kv_heads * record;
  if (partials_.size_bytes() < partials) {
    MILLRACE_ASSIGN(partials_, device_->allocate(partials, "the partial sums of attention"));
  }
  const std::uint64_t words = WORK_CUTS + std::uint64_t{most_counters} * heads.kv_heads;
  if (work_.size_bytes() < words * 4) {
    MILLRACE_ASSIGN(work_, device_->allocate_zeroed(2 * words * 4, "the counters of attention"));
  }
  return {};
}

std::vector<const Buffer*> Operations::counters() const {
  std::vector<const Buffer*> out;
  for (const Buffer* buffer : {&claims_, &work_}) {
    if (*buffer) out.push_back(buffer);
  }
  return out;
}

Status Operations::gated_mul(const Buffer& gate_up, const Activation& out, Forms forms,
                             std::uint32_t width, std::uint32_t tokens) {
  if (forms.rows) {
    MILLRACE_TRY(device_->launch(gated_mul_, {.groups = {tokens}, .local = {row_items()}},
                                 {gate_up, out.rows, width / 16, input_stride(width)}));
  }
  if (!forms.codes) return {};
  return device_->launch(gated_mul_quantize_, {.groups = {tokens}, .local = {row_items()}},
                         {gate_up, out.codes, width / block_columns, code_stride(width)});
}

Status Operations::convert(const Buffer& rows, const Activation& out, Forms forms,
                           std::uint32_t tokens) {
  const std::uint32_t stride = input_stride(spec_.width);
  if (forms.rows) {
    const std::uint64_t bytes = std::uint64_t{tokens} * stride * sizeof(float);
    MILLRACE_TRY(device_->copy(rows, 0, out.rows, 0, bytes));
  }
  if (!forms.codes) return {};
  return device_->launch(
      quantize_, {.groups = {tokens}, .local = {row_items()}},
      {rows, out.codes, spec_.width / block_columns, stride, code_stride(spec_.width)});
}

Status Operations::norm_heads(const Buffer& qkv, const Buffer& weight, std::uint32_t tokens) {
  const AttentionSpec& heads = spec_.attention();
  const bool whole = heads.head_norm == HeadNorm::whole_width;
  const std::uint32_t norms = whole ? 2 : heads.heads + heads.kv_heads;
  return device_->launch(norm_heads_, {.groups = {norms, tokens}, .local = {row_items()}},
                         {qkv, weight, qkv_stride_, spec_.norm_epsilon});
}

Status Operations::turn_heads(const Buffer& qkv, const Buffer& rope, const StepTable& step,
                              const Buffer& step_words) {
  const AttentionSpec& heads = spec_.attention();
  return device_->launch(
      turn_heads_, {.groups = {heads.heads + heads.kv_heads, step.tokens}, .local = {row_items()}},
      {qkv, rope, step_words, step.positions_at, qkv_stride_});
}

Status Operations::scale_queries(const Buffer& qkv, const Buffer& factors, const StepTable& step,
                                 const Buffer& step_words) {
  return device_->launch(scale_queries_, {.groups = {step.tokens}, .local = {row_items()}},
                         {qkv, factors, step_words, step.positions_at, qkv_stride_});
}

Status Operations::add_branch(const Buffer& hidden, const Buffer& branch, const Buffer& weight,
                              float scale, std::uint32_t tokens) {
  return device_->launch(add_branch_, {.groups = {tokens}, .local = {row_items()}},
                         {hidden, branch, weight, round_up(spec_.width, 16) / 16,
                          input_stride(spec_.width), inverse_width(), spec_.norm_epsilon, scale});
}

Status Operations::limit_logits(const Buffer& logits, std::uint32_t rows, std::uint32_t stride) {
  if (!limit_logits_) return {};
  return device_->launch(limit_logits_, {.groups = {rows}, .local = {row_items()}},
                         {logits, stride, spec_.logit_scale});
}

Status Operations::quantize(const Activation& x, std::uint32_t columns, std::uint32_t tokens) {
  return device_->launch(
      quantize_, {.groups = {tokens}, .local = {row_items()}},
      {x.rows, x.codes, columns / block_columns, input_stride(columns), code_stride(columns)});
}

}  // namespace millrace::engine
