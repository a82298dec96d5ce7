#include "engine/core/model/operations.hpp"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <utility>

#include "engine/core/model/layer_program.hpp"
#include "engine/core/model/program_text.hpp"

namespace millrace::engine {

Operations::Operations(std::unique_ptr<Backend> backend)
    : backend_(std::move(backend)),
      target_(backend_->target()),
      spec_(target_.spec),
      device_(target_.device) {}

// Of the kernels that go along rows.
std::vector<std::string> Operations::row_defines() const {
  std::vector<std::string> out{define("ROW_ITEMS", row_items()), target_.gate_define()};
  if (spec_.centered_norms) out.push_back(define("NORM_CENTERED", 1));
  return out;
}

Status Operations::prepare_layer() {
  MILLRACE_ASSIGN(const Program built,
                  device_->build({.name = "layer",
                                  .sources = {"norm/rms.cl", "activation/gated.cl"},
                                  .defines = row_defines()}));
  MILLRACE_ASSIGN(norm_, device_->kernel(built, "rms_norm"));
  MILLRACE_ASSIGN(gated_mul_, device_->kernel(built, "gated_mul"));
  MILLRACE_TRY(backend_->prepare_norm());
  MILLRACE_TRY(prepare_branches());
  MILLRACE_TRY(prepare_embeddings());
  heads_.clear();
  for (std::uint32_t kind = 0; kind < target_.kinds.size(); ++kind) {
    MILLRACE_TRY(prepare_heads(kind));
  }
  if (rounds(target_.math)) {
    std::vector<std::string> defines = row_defines();
    std::ranges::copy(target_.code_defines(), std::back_inserter(defines));
    MILLRACE_ASSIGN(const Program quantizing, device_->build({.name = "quantize",
                                                              .sources = {"quantize/quantize.cl"},
                                                              .defines = std::move(defines)}));
    MILLRACE_ASSIGN(norm_quantize_, device_->kernel(quantizing, "rms_norm_quantize"));
    MILLRACE_ASSIGN(gated_mul_quantize_, device_->kernel(quantizing, "gated_mul_quantize"));
    MILLRACE_ASSIGN(quantize_, device_->kernel(quantizing, "quantize_rows"));
  }
  return {};
}

// Compiles what joins the outputs of sublayers that are normed or scaled to the residual stream.
Status Operations::prepare_branches() {
  const bool any = std::ranges::any_of(spec_.layers, [](const LayerSpec& layer) {
    return layer.placement == NormPlacement::after ||
           layer.placement == NormPlacement::before_and_after || layer.residual_scale != 1.0f;
  });
  if (!any) return {};
  MILLRACE_ASSIGN(const Program built,
                  device_->build({.name = "add",
                                  .sources = {"norm/add.cl"},
                                  .defines = {define("ROW_ITEMS", row_items())}}));
  MILLRACE_ASSIGN(add_branch_, device_->kernel(built, "add_branch"));
  return {};
}

// Compiles what models with embeddings by layer need.
Status Operations::prepare_embeddings() {
  if (spec_.layer_embedding == 0) return {};
  MILLRACE_ASSIGN(const Program built,
                  device_->build({.name = "embed_by_layer",
                                  .sources = {"embed/by_layer.cl"},
                                  .defines = {define("ROW_ITEMS", row_items())}}));
  MILLRACE_ASSIGN(embed_by_layer_, device_->kernel(built, "embed_by_layer"));
  MILLRACE_ASSIGN(place_embedding_, device_->kernel(built, "place_embedding"));
  return {};
}

Result<Kernel> Operations::build_for_heads(const char* source, const char* kernel,
                                           std::uint32_t kind, std::vector<std::string> defines) {
  std::ranges::copy(target_.head_defines(kind), std::back_inserter(defines));
  MILLRACE_ASSIGN(
      const Program built,
      device_->build({.name = kernel, .sources = {source}, .defines = std::move(defines)}));
  return device_->kernel(built, kernel);
}

// Compiles what layers of a kind do to queries and keys before attention.
Status Operations::prepare_heads(std::uint32_t kind) {
  const AttentionKind& of = target_.kinds[kind];
  HeadKernels& kernels = heads_.emplace_back();
  if (of.head_norm != HeadNorm::none) {
    MILLRACE_ASSIGN(kernels.norm, build_for_heads("norm/heads.cl", "norm_heads", kind,
                                                  target_.head_norm_defines(kind)));
  }
  if (of.turn_dim > 0) {
    MILLRACE_ASSIGN(kernels.turn, build_for_heads("rope/in_place.cl", "turn_heads", kind,
                                                  {define("TURN_DIM", of.turn_dim),
                                                   define("TURN_HALVES", of.halves ? 1 : 0)}));
  }
  if (of.output_gate) {
    MILLRACE_ASSIGN(const Program built,
                    device_->build({.name = "gate_output",
                                    .sources = {"activation/sigmoid_gate.cl"},
                                    .defines = {define("ROW_ITEMS", row_items())}}));
    MILLRACE_ASSIGN(kernels.gate_output, device_->kernel(built, "gate_attended"));
  }
  if (of.latent > 0) {
    MILLRACE_ASSIGN(kernels.split, build_for_heads("latent/split.cl", "split_latents", kind));
  }
  const bool scales = std::ranges::any_of(spec_.layers, [](const LayerSpec& layer) {
    return layer.attention.temperature_beta != 0.0f;
  });
  if (!scales) return {};
  MILLRACE_ASSIGN(kernels.scale_queries,
                  build_for_heads("rope/temperature.cl", "scale_queries", kind));
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

Status Operations::norm(const Buffer& x, const Buffer& weight, const Activation& out, Forms forms,
                        const StepTable& step, const Buffer& step_words, bool gather) {
  MILLRACE_ASSIGN(const Forms made, backend_->norm({.x = x,
                                                    .weight = weight,
                                                    .out = out,
                                                    .forms = forms,
                                                    .step = step,
                                                    .step_words = step_words,
                                                    .gather = gather}));
  if (made.any()) return {};
  const std::uint32_t stride = input_stride(spec_.width);
  const Grid grid{.groups = {gather ? step.outputs : step.tokens}, .local = {row_items()}};
  if (forms.rows) {
    MILLRACE_TRY(device_->launch(norm_, grid,
                                 {x, weight, out.rows, step_words, step.outputs_at,
                                  gather ? 1u : 0u, round_up(spec_.width, 16) / 16, stride, stride,
                                  target_.inverse_width(), spec_.norm_epsilon}));
  }
  if (!forms.codes) return {};
  return device_->launch(norm_quantize_, grid,
                         {x, weight, out.codes, step_words, step.outputs_at, gather ? 1u : 0u,
                          spec_.width / block_columns, stride, target_.code_stride(spec_.width),
                          target_.inverse_width(), spec_.norm_epsilon});
}

Status Operations::project(const Projection& projection, const Activation& x, std::uint32_t columns,
                           const Buffer& out, std::uint32_t out_stride, Accumulate accumulate) {
  return backend_->project({.matrix = projection,
                            .x = x,
                            .columns = columns,
                            .out = out,
                            .out_stride = out_stride,
                            .accumulate = accumulate},
                           target_.math);
}

Status Operations::gated(const Activation& x, const Projection& projection, const Buffer& gate_up,
                         const Activation& out, Forms forms, std::uint32_t tokens) {
  MILLRACE_ASSIGN(
      const Forms made,
      backend_->gated(
          {.matrix = projection, .x = x, .out = out, .forms = forms, .tokens = tokens}));
  const std::uint32_t width = gated_columns(projection);
  if (made.any()) return complete(out, made, forms, width, tokens);
  MILLRACE_TRY(project(projection, x, tokens, gate_up, projection.rows, Accumulate::replace));
  return gated_mul(gate_up, out, forms, width, tokens);
}

Status Operations::rope_and_store(const Buffer& qkv, const Buffer& rope, const KvPages& kv,
                                  const StepTable& step, const Buffer& step_words) {
  return backend_->rope_and_store({qkv, rope, kv, step, step_words});
}

Status Operations::attend(const Buffer& qkv, const Buffer& rope, const KvPages& kv,
                          const Activation& out, Forms forms, const StepTable& step,
                          const Buffer& step_words) {
  MILLRACE_ASSIGN(const Forms made,
                  backend_->attend({qkv, rope, kv, step, step_words}, out, forms));
  return complete(out, made, forms, target_.kinds[kv.kind].columns(), step.tokens);
}

Status Operations::gated_mul(const Buffer& gate_up, const Activation& out, Forms forms,
                             std::uint32_t width, std::uint32_t tokens) {
  if (forms.rows) {
    MILLRACE_TRY(device_->launch(gated_mul_, {.groups = {tokens}, .local = {row_items()}},
                                 {gate_up, out.rows, width / 16, input_stride(width)}));
  }
  if (!forms.codes && !forms.bytes) return {};
  // A row has many blocks; where a group is one work-item, rows alone are groups enough.
  const std::uint32_t items = row_items(), blocks = width / block_columns;
  const std::uint32_t groups = items == 1 ? 1 : (blocks + items - 1) / items;
  MILLRACE_TRY(device_->launch(gated_mul_quantize_, {.groups = {tokens, groups}, .local = {items}},
                               {gate_up, out.codes, blocks, target_.code_stride(width)}));
  return complete(out, {.rows = forms.rows, .codes = true}, forms, width, tokens);
}

Status Operations::convert(const Buffer& rows, const Activation& out, Forms forms,
                           std::uint32_t tokens) {
  const std::uint32_t stride = input_stride(spec_.width);
  if (forms.rows) {
    const std::uint64_t bytes = std::uint64_t{tokens} * stride * sizeof(float);
    MILLRACE_TRY(device_->copy(rows, 0, out.rows, 0, bytes));
  }
  return complete(rows, out, {.rows = true}, forms, spec_.width, tokens);
}

Status Operations::split_latents(const Buffer& latents, const SplitOp& split, std::uint32_t kind,
                                 const Activation& query_latent, const Buffer& qkv,
                                 std::uint32_t tokens) {
  const Projection& matrix = *split.latents;
  const LatentWeights& weights = *split.weights;
  const std::uint32_t lower = weights.query_norm ? weights.query_b.columns : 0;
  const float inverse = lower > 0 ? static_cast<float>(1.0 / lower) : 0.0f;
  MILLRACE_TRY(
      device_->launch(heads_[kind].split, {.groups = {tokens}, .local = {row_items()}},
                      {latents, weights.query_norm, weights.latent_norm, query_latent.rows, qkv,
                       round_up(lower, 16) / 16, matrix.first[1], matrix.rows, input_stride(lower),
                       target_.kinds[kind].qkv_stride(), inverse, weights.norm_epsilon}));
  return complete(query_latent, {.rows = true}, split.forms, lower, tokens);
}

Status Operations::norm_heads(const Buffer& qkv, const Buffer& weight, std::uint32_t kind,
                              std::uint32_t tokens) {
  const AttentionKind& of = target_.kinds[kind];
  const bool whole = of.head_norm == HeadNorm::whole_width;
  const bool values = of.stores && of.normed_values && !of.keys_are_values;
  const std::uint32_t heads = of.heads + of.stored_heads() + (values ? of.kv_heads : 0);
  const std::uint32_t norms = whole ? 2 : heads;
  return device_->launch(heads_[kind].norm, {.groups = {norms, tokens}, .local = {row_items()}},
                         {qkv, weight, of.qkv_stride(), spec_.norm_epsilon});
}

Status Operations::turn_heads(const Buffer& qkv, const Buffer& rope, std::uint32_t kind,
                              const StepTable& step, const Buffer& step_words) {
  const AttentionKind& of = target_.kinds[kind];
  return device_->launch(heads_[kind].turn,
                         {.groups = {of.heads + of.kv_heads, step.tokens}, .local = {row_items()}},
                         {qkv, rope, step_words, step.positions_at, of.qkv_stride()});
}

Status Operations::gate_output(const Buffer& qkv, const Activation& out, Forms forms,
                               std::uint32_t kind, std::uint32_t tokens) {
  const AttentionKind& heads = target_.kinds[kind];
  MILLRACE_TRY(device_->launch(heads_[kind].gate_output,
                               {.groups = {tokens}, .local = {row_items()}},
                               {qkv, out.rows, heads.gate_row(), heads.columns() / 16,
                                heads.qkv_stride(), input_stride(heads.columns())}));
  return complete(out, {.rows = true}, forms, heads.columns(), tokens);
}

Status Operations::scale_queries(const Buffer& qkv, const Buffer& factors, std::uint32_t kind,
                                 const StepTable& step, const Buffer& step_words) {
  return device_->launch(
      heads_[kind].scale_queries, {.groups = {step.tokens}, .local = {row_items()}},
      {qkv, factors, step_words, step.positions_at, target_.kinds[kind].qkv_stride()});
}

Status Operations::add_branch(const Sum& sum, std::uint32_t tokens) {
  const std::uint32_t replaces = sum.accumulate == Accumulate::replace ? 1 : 0;
  return device_->launch(
      add_branch_, {.groups = {tokens}, .local = {row_items()}},
      {sum.to, sum.from, sum.weight, round_up(spec_.width, 16) / 16, input_stride(spec_.width),
       target_.inverse_width(), spec_.norm_epsilon, sum.scale, sum.total, replaces});
}

Status Operations::embed_by_layer(const Buffer& embeddings, const Buffer& projected,
                                  const Buffer& weight, std::uint32_t tokens) {
  const std::uint32_t channels = spec_.layer_embedding, layers = spec_.layer_count();
  const double scale = 1.0 / std::sqrt(static_cast<double>(spec_.width));
  return device_->launch(embed_by_layer_, {.groups = {layers, tokens}, .local = {row_items()}},
                         {embeddings, projected, weight, channels / 16, layers * channels,
                          layers * channels, static_cast<float>(scale),
                          static_cast<float>(scale * scale / channels), spec_.norm_epsilon});
}

Status Operations::gate_embedding(const Activation& x, const Projection& gate,
                                  const Buffer& embeddings, std::uint32_t layer,
                                  const Buffer& gate_up, const Activation& out, Forms forms,
                                  std::uint32_t tokens) {
  const std::uint32_t channels = spec_.layer_embedding;
  MILLRACE_TRY(project(gate, x, tokens, gate_up, 2 * channels, Accumulate::replace));
  MILLRACE_TRY(device_->launch(
      place_embedding_, {.groups = {tokens}, .local = {row_items()}},
      {embeddings, gate_up, layer, channels / 16, spec_.layer_count() * channels, 2 * channels}));
  return gated_mul(gate_up, out, forms, channels, tokens);
}

Status Operations::limit_logits(const Buffer& logits, std::uint32_t rows, std::uint32_t stride) {
  if (!limit_logits_) return {};
  return device_->launch(limit_logits_, {.groups = {rows}, .local = {row_items()}},
                         {logits, stride, spec_.logit_scale});
}

Status Operations::complete(const Buffer& rows, const Activation& out, Forms made, Forms wanted,
                            std::uint32_t columns, std::uint32_t tokens) {
  if (wanted.codes && !made.codes) {
    MILLRACE_TRY(device_->launch(quantize_, {.groups = {tokens}, .local = {row_items()}},
                                 {rows, out.codes, columns / block_columns, input_stride(columns),
                                  target_.code_stride(columns)}));
  }
  if (!wanted.bytes || made.bytes) return {};
  return backend_->to_bytes({.from = made.codes ? out.codes : rows,
                             .codes = made.codes,
                             .out = out.bytes,
                             .columns = columns,
                             .tokens = tokens});
}

}  // namespace millrace::engine
