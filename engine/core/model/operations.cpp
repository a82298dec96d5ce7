#include "engine/core/model/operations.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <utility>

#include "engine/core/model/program_text.hpp"

namespace millrace::engine {
namespace {

constexpr std::uint32_t attention_items = 64;  // a group of the plain form, as in its source

std::vector<std::string> head_defines(const ModelSpec& spec) {
  return {define("HEAD_DIM", spec.head_dim), define("HEADS", spec.heads),
          define("KV_HEADS", spec.kv_heads)};
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
  if (device.family() != Family::cpu) return;
  // As many queries share each key and value that is loaded as there are registers for their sums;
  // never fewer than two tokens, because tiles of one are rotated by the kernel for decoding rows.
  const std::uint32_t tile = variant_.sums * spec.kv_heads / spec.heads;
  attention_ = {.tile_tokens = std::max(2u, tile),
                .workers = device.info().compute_units,
                .kv_heads = spec.kv_heads};
}

float Operations::attention_scale() const {
  return static_cast<float>(1.0 / std::sqrt(static_cast<double>(spec_.head_dim)));
}

float Operations::inverse_width() const {
  return static_cast<float>(1.0 / static_cast<double>(spec_.width));
}

Status Operations::prepare_embedding(const Projection& embedding) {
  const PanelLayout layout{embedding.runs[0].format, embedding.columns};
  std::vector<std::string> defines = layout.defines();
  defines.push_back(define("WIDTH", embedding.columns));
  defines.push_back(define("ROW_ITEMS", row_items()));
  MILLRACE_ASSIGN(const Program program,
                  device_->build({.name = "embed",
                                  .sources = {"matmul/layout.cl", "embed/embed.cl"},
                                  .defines = std::move(defines)}));
  MILLRACE_ASSIGN(embed_, device_->kernel(program, "embed"));
  return {};
}

Status Operations::prepare_layer(const Projection& qkv) {
  qkv_stride_ = qkv.rows;
  layer_defines_ = head_defines(spec_);
  layer_defines_.push_back(define("K_ROW", qkv.first[1]));
  layer_defines_.push_back(define("V_ROW", qkv.first[2]));
  layer_defines_.push_back(define("ROPE_DIM", spec_.rope_dim));
  layer_defines_.push_back(define("ROPE_HALVES", spec_.rope == RopeKind::halves ? 1 : 0));
  layer_defines_.push_back(define("ROW_ITEMS", row_items()));
  const bool cpu = device_->family() == Family::cpu;
  ProgramSpec program{.name = "layer", .sources = {"kv/layout.cl"}, .defines = layer_defines_};
  if (cpu) {
    for (const char* source : {"kv/vectors.cl", "rope/rotate.cl", "rope/tile.cl"}) {
      program.sources.emplace_back(source);
    }
  }
  for (const auto& source : {variant_of("rope/", device_->family()), std::string("norm/rms.cl"),
                             std::string("activation/silu.cl")}) {
    program.sources.push_back(source);
  }
  MILLRACE_ASSIGN(const Program built, device_->build(program));
  MILLRACE_ASSIGN(rope_kv_, device_->kernel(built, "rope_kv"));
  MILLRACE_ASSIGN(norm_, device_->kernel(built, "rms_norm"));
  MILLRACE_ASSIGN(silu_, device_->kernel(built, "silu_mul"));
  if (math_ == MathMode::fast) {
    MILLRACE_ASSIGN(
        const Program quantizing,
        device_->build({.name = "quantize",
                        .sources = {"quantize/block.cl", "norm/rms.cl", "activation/silu.cl",
                                    "quantize/norm.cl", "quantize/quantize.cl"},
                        .defines = {define("ROW_ITEMS", row_items())}}));
    MILLRACE_ASSIGN(norm_quantize_, device_->kernel(quantizing, "rms_norm_quantize"));
    MILLRACE_ASSIGN(silu_quantize_, device_->kernel(quantizing, "silu_mul_quantize"));
    MILLRACE_ASSIGN(quantize_, device_->kernel(quantizing, "quantize_rows"));
  }
  return {};
}

Status Operations::prepare_attention() {
  MILLRACE_ASSIGN(attend_one_, build_attention(1));
  if (device_->family() != Family::cpu) return {};
  MILLRACE_ASSIGN(attend_many_, build_attention(attention_.tile_tokens));
  return {};
}

Result<Kernel> Operations::build_attention(std::uint32_t queries) {
  ProgramSpec program{.name = "attention", .sources = {"kv/layout.cl"}, .defines = layer_defines_};
  if (device_->family() == Family::cpu) {
    for (const char* source : {"kv/vectors.cl", "rope/rotate.cl", "quantize/block.cl",
                               "attention/units.cl", "attention/tiles.cl"}) {
      program.sources.emplace_back(source);
    }
  }
  program.sources.push_back(variant_of("attention/", device_->family()));
  program.defines.push_back(define("QUERIES", queries));
  program.defines.push_back(define("SUMS", variant_.sums));
  if (variant_.half_by_integers) program.defines.emplace_back("HALF_BY_INTEGERS=1");
  MILLRACE_ASSIGN(const Program built, device_->build(program));
  return device_->kernel(built, "attention");
}

Status Operations::embed(const Projection& embedding, const StepTable& step,
                         const Buffer& step_words, const Buffer& device_ids, const Buffer& hidden) {
  for (const WeightRun& run : embedding.runs) {
    MILLRACE_TRY(device_->launch(
        embed_, {.groups = {step.tokens}, .local = {row_items()}},
        {run.buffer, step_words, device_ids, hidden, step.ids_at, step.slots_at, run.first_row,
         run.panels * panel_rows, spec_.vocabulary, input_stride(spec_.width)}));
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

Status Operations::rope_and_store(const Buffer& qkv, const Buffer& rope, const Buffer& kv,
                                  const StepTable& step, const Buffer& step_words) {
  if (device_->family() == Family::cpu) {
    if (step.tiles.count == 0) return {};
    return device_->launch(rope_kv_, {.groups = {step.tiles.count}},
                           {qkv, rope, kv, step_words, step.positions_at, step.tables_at,
                            step.tiles.offset, qkv_stride_});
  }
  return device_->launch(
      rope_kv_, {.groups = {spec_.heads + spec_.kv_heads, step.tokens}, .local = {row_items()}},
      {qkv, rope, kv, step_words, step.positions_at, step.tables_at, qkv_stride_});
}

// Memory for the units of a step; what was there before lives on until its commands are done.
Status Operations::reserve_scratch(const StepTable& step) {
  // The kernel's RECORD_VECTORS, for the larger tiles.
  const std::uint64_t rows = std::uint64_t{attention_.tile_tokens} * (spec_.heads / spec_.kv_heads);
  const std::uint64_t record = (2 * ((rows + 15) / 16) + rows * (spec_.head_dim / 16)) * 64;
  const std::uint64_t partials = step.partials * spec_.kv_heads * record;
  if (partials_.size_bytes() < partials) {
    MILLRACE_ASSIGN(partials_, device_->allocate(partials, "the partial sums of attention"));
  }
  const std::uint64_t words = 2 + std::uint64_t{step.counters} * spec_.kv_heads;
  if (work_.size_bytes() < words * 4) {
    MILLRACE_ASSIGN(work_, device_->allocate_zeroed(2 * words * 4, "the counters of attention"));
  }
  return {};
}

Status Operations::attend_units(Kernel& kernel, const Buffer& qkv, const Buffer& rope,
                                const Buffer& kv, AttentionOutput out, const StepTable& step,
                                const Buffer& step_words, ItemList units) {
  if (units.count == 0) return {};
  const std::uint32_t columns = spec_.heads * spec_.head_dim;
  const std::uint32_t groups = std::min(units.count * spec_.kv_heads, attention_.workers);
  return device_->launch(
      kernel, {.groups = {groups}},
      {qkv, rope, kv, step_words, out.rows, partials_, work_, step.positions_at, step.tables_at,
       units.offset, units.count, qkv_stride_, input_stride(columns), out.codes,
       code_stride(columns), attention_scale()});
}

Status Operations::attend(const Buffer& qkv, const Buffer& rope, const Buffer& kv,
                          const Activation& out, Forms forms, const StepTable& step,
                          const Buffer& step_words) {
  if (device_->family() == Family::cpu) {
    MILLRACE_TRY(reserve_scratch(step));
    const bool quantizes = forms.codes && spec_.head_dim % block_columns == 0;
    const Buffer none;
    const bool rows = forms.rows || !quantizes;
    const AttentionOutput to{rows ? out.rows : none, quantizes ? out.codes : none};
    MILLRACE_TRY(attend_units(attend_one_, qkv, rope, kv, to, step, step_words, step.single_units));
    MILLRACE_TRY(attend_units(attend_many_, qkv, rope, kv, to, step, step_words, step.multi_units));
    if (!forms.codes || quantizes) return {};
  } else {
    MILLRACE_TRY(device_->launch(
        attend_one_, {.groups = {spec_.heads, step.tokens}, .local = {attention_items}},
        {qkv, kv, step_words, out.rows, step.positions_at, step.tables_at, qkv_stride_,
         input_stride(spec_.heads * spec_.head_dim), attention_scale()}));
    if (!forms.codes) return {};
  }
  return quantize(out, spec_.heads * spec_.head_dim, step.tokens);
}

Status Operations::silu(const Buffer& gate_up, const Activation& out, Forms forms,
                        std::uint32_t tokens) {
  if (forms.rows) {
    MILLRACE_TRY(device_->launch(silu_, {.groups = {tokens}, .local = {row_items()}},
                                 {gate_up, out.rows, round_up(spec_.ffn_width, panel_rows) / 16,
                                  input_stride(spec_.ffn_width)}));
  }
  if (!forms.codes) return {};
  return device_->launch(
      silu_quantize_, {.groups = {tokens}, .local = {row_items()}},
      {gate_up, out.codes, spec_.ffn_width / block_columns, code_stride(spec_.ffn_width)});
}

Status Operations::quantize(const Activation& x, std::uint32_t columns, std::uint32_t tokens) {
  return device_->launch(
      quantize_, {.groups = {tokens}, .local = {row_items()}},
      {x.rows, x.codes, columns / block_columns, input_stride(columns), code_stride(columns)});
}

}  // namespace millrace::engine
