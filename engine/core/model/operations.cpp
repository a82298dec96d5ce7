#include "engine/core/model/operations.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <utility>

#include "engine/core/model/program_text.hpp"

namespace millrace::engine {
namespace {

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
  // A tile has as many queries as there are registers for their sums, so that they share each key
  // and value that is loaded. It has at least two tokens, because the kernel for decoding rows
  // computes tiles of one.
  const std::uint32_t tile = variant_.sums * spec.kv_heads / spec.heads;
  attention_ = {.tile_tokens = std::max(2u, tile),
                .workers = device.info().compute_units,
                .kv_heads = spec.kv_heads,
                .window = spec.attention.window};
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
  MILLRACE_ASSIGN(const Program built,
                  device_->build({.name = "layer",
                                  .sources = {"norm/rms.cl", "activation/silu.cl"},
                                  .defines = {define("ROW_ITEMS", row_items())}}));
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

// Allocates memory for the units of a step. The driver keeps the old buffers until their commands
// are done.
Status Operations::reserve_scratch(const StepTable& step) {
  // This equals the kernel's RECORD_VECTORS, for the larger tiles.
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

std::vector<const Buffer*> Operations::counters() const {
  std::vector<const Buffer*> out;
  for (const Buffer* buffer : {&claims_, &work_, &phases_}) {
    if (*buffer) out.push_back(buffer);
  }
  return out;
}

Status Operations::clear_counters() {
  for (const Buffer* buffer : counters()) {
    MILLRACE_TRY(device_->fill_zero(*buffer, 0, buffer->size_bytes()));
  }
  return {};
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
