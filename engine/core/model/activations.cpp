#include "engine/core/model/activations.hpp"

#include <algorithm>
#include <string_view>

#include "engine/core/model/recurrence.hpp"

namespace millrace::engine {
namespace {

Status zeroed(const Target& target, Buffer& buffer, std::uint32_t stride, std::uint32_t count,
              std::string_view what) {
  const std::uint64_t words = std::uint64_t{stride} * (count + input_slack_rows);
  MILLRACE_ASSIGN(buffer, target.device->allocate_zeroed(words * sizeof(float), what));
  return {};
}

Status zeroed(const Target& target, Activation& activation, Forms forms, std::uint32_t columns,
              std::uint32_t count, std::string_view what) {
  if (forms.rows) {
    MILLRACE_TRY(zeroed(target, activation.rows, input_stride(columns), count, what));
  }
  if (forms.codes) {
    const std::uint64_t words = target.code_words(columns, count);
    MILLRACE_ASSIGN(activation.codes, target.device->allocate_zeroed(words * 4, what));
  }
  if (forms.bytes) {
    const std::uint64_t words = target.byte_words(columns, count);
    MILLRACE_ASSIGN(activation.bytes, target.device->allocate_zeroed(words * 4, what));
  }
  return {};
}

// What of an activation has memory: bytes may be made of codes.
Forms with_source(Forms forms) {
  return forms | Forms{.codes = forms.bytes};
}

// Floats from one row of qkv to the next after a product: keys that are values leave room for
// these.
std::uint32_t qkv_stride(const LayerProgram& layer, const Projection& matrix,
                         const Operations& operations) {
  return layer.spec->attention.keys_are_values ? operations.qkv_stride(layer.kv.kind) : matrix.rows;
}

}  // namespace

// Collects what the operations of all layers write.
Status Activations::allocate(const ModelSpec& spec, std::span<const LayerProgram> layers,
                             const Projection& head, const Operations& operations,
                             std::uint32_t tokens, std::uint32_t outputs, Forms embedding) {
  const Target& target = operations.target();
  std::uint32_t qkv_rows = 0, gate_up_rows = 0;
  Forms to_normed = operations.inputs_of(head) | embedding, to_routed;
  std::map<std::uint32_t, Forms> to_attended, to_activated;  // by width
  bool branches = false, mixes = false;
  for (const LayerProgram& layer : layers) {
    for (const LayerOp& operation : layer.operations) {
      if (const auto* norm = std::get_if<NormOp>(&operation)) {
        (norm->out == Slot::routed ? to_routed : to_normed) |= norm->forms;
      }
      if (const auto* add = std::get_if<AddOp>(&operation)) mixes = mixes || add->to == Slot::mixed;
      if (const auto* gate = std::get_if<EmbeddingGateOp>(&operation)) {
        to_activated[gate->matrix->rows] |= gate->forms;
        gate_up_rows = std::max(gate_up_rows, 2 * gate->matrix->rows);
      }
      if (const auto* attend = std::get_if<AttendOp>(&operation)) {
        if (attend->out == Slot::attended) {
          to_attended[layer.spec->attention.columns()] |= attend->forms | Forms{.rows = true};
        }
      }
      if (const auto* gate = std::get_if<GateOutputOp>(&operation)) {
        to_attended[layer.spec->attention.columns()] |= gate->forms;
      }
      if (const auto* recurrence = std::get_if<RecurrenceOp>(&operation)) {
        to_attended[layer.spec->recurrence.outputs()] |= recurrence->forms | Forms{.rows = true};
      }
      if (const auto* gated = std::get_if<GatedOp>(&operation)) {
        to_activated[gated_columns(*gated->matrix)] |= gated->forms;
        if (!gated->matrix->paired) gate_up_rows = std::max(gate_up_rows, gated->matrix->rows);
      }
      if (const auto* product = std::get_if<ProductOp>(&operation)) {
        branches = branches || product->out == Slot::branch;
        if (product->out == Slot::qkv) {
          qkv_rows = std::max(qkv_rows, qkv_stride(layer, *product->matrix, operations));
        }
      }
      if (const auto* by_head = std::get_if<HeadProductOp>(&operation)) {
        if (by_head->out == Slot::attended) {
          to_attended[layer.spec->attention.columns()] |= by_head->forms | Forms{.rows = true};
        }
        qkv_rows = std::max(qkv_rows, operations.kind(layer.kv.kind).qkv_stride());
      }
    }
  }
  const std::uint32_t width = input_stride(spec.width);
  MILLRACE_TRY(zeroed(target, hidden, width, tokens, "the residual stream"));
  if (branches) MILLRACE_TRY(zeroed(target, branch, width, tokens, "a sublayer's output"));
  MILLRACE_TRY(zeroed(target, qkv, qkv_rows, tokens, "queries, keys and values"));
  MILLRACE_TRY(zeroed(target, normed, to_normed, spec.width, std::max(tokens, outputs),
                      "normed activations"));
  for (const auto& [columns, forms] : to_attended) {
    MILLRACE_TRY(zeroed(target, attended[columns], with_source(forms), columns, tokens,
                        "the attention's output"));
  }
  MILLRACE_TRY(allocate_latents(target, layers, tokens));
  if (mixes) MILLRACE_TRY(zeroed(target, mixed, width, tokens, "a sum of feed-forwards"));
  MILLRACE_TRY(zeroed(target, routed, to_routed, spec.width, tokens, "the routers' input"));
  if (gate_up_rows > 0) {
    MILLRACE_TRY(zeroed(target, gate_up, gate_up_rows, tokens, "gate and up"));
  }
  for (const auto& [columns, forms] : to_activated) {
    MILLRACE_TRY(
        zeroed(target, activated[columns], with_source(forms), columns, tokens, "the activation"));
  }
  return {};
}

const Activation& Activations::activated_of(std::uint32_t columns) const {
  return activated.at(round_up(columns, panel_rows));
}

const Buffer& Activations::activated_codes(std::uint32_t columns) const {
  const auto found = activated.find(round_up(columns, panel_rows));
  return found == activated.end() ? no_buffer : found->second.codes;
}

// All layers with latent attention have the same sizes.
Status Activations::allocate_latents(const Target& target, std::span<const LayerProgram> layers,
                                     std::uint32_t tokens) {
  const AttentionSpec* attention = nullptr;
  Forms to_query_latent{.rows = true};  // codes are made of them
  for (const LayerProgram& layer : layers) {
    if (layer.spec->attention.latent) attention = &layer.spec->attention;
    for (const LayerOp& operation : layer.operations) {
      if (const auto* split = std::get_if<SplitOp>(&operation)) to_query_latent |= split->forms;
    }
  }
  if (attention == nullptr) return {};
  const LatentSpec& latent = *attention->latent;
  const std::uint32_t heads = attention->heads, lower = latent.query_rank;
  const std::uint32_t query_columns = heads * latent.query_dim(attention->head_dim);
  MILLRACE_TRY(zeroed(target, latents,
                      round_up(lower > 0 ? lower : query_columns, 16) + attention->head_dim, tokens,
                      "latents"));
  MILLRACE_TRY(zeroed(target, summed, {.rows = true}, heads * latent.rank, tokens,
                      "weighed sums of latents"));
  if (lower == 0) return {};
  MILLRACE_TRY(zeroed(target, query_latent, to_query_latent, lower, tokens, "latent queries"));
  return zeroed(target, queries, query_columns, tokens, "queries");
}

const Activation& Activations::product_input(const ProductOp& product) const {
  if (product.in == Slot::query_latent) return query_latent;
  if (product.in == Slot::attended) return attended.at(product.matrix->columns);
  return product.in == Slot::activated ? activated_of(product.matrix->columns) : normed;
}

const Buffer& Activations::product_output(Slot slot) const {
  if (slot == Slot::qkv) return qkv;
  if (slot == Slot::latents) return latents;
  if (slot == Slot::queries) return queries;
  return slot == Slot::branch ? branch : hidden;
}

namespace {

// The products of each head in latent attention. A query [n | r] becomes [r | attn_k_b n].
Status multiply_heads(Operations& ops, const AttentionSpec& attention, const HeadProductOp& op,
                      const Activations& x, std::uint32_t qkv_stride, std::uint32_t tokens) {
  const LatentSpec& latent = *attention.latent;
  if (op.out == Slot::attended) {
    const std::uint32_t width = attention.columns();
    const HeadRows in{x.summed.rows, 0, input_stride(attention.heads * latent.rank), latent.rank};
    const Activation& attended = x.attended.at(attention.columns());
    const HeadRows out{attended.rows, 0, input_stride(width), latent.value_dim};
    MILLRACE_TRY(op.products->run(*op.matrix, in, out, tokens));
    return ops.complete(attended, {.rows = true}, op.forms, width, tokens);
  }
  const std::uint32_t turned = attention.head_dim - latent.rank;
  const std::uint32_t query = latent.query_dim(attention.head_dim), plain = latent.plain_dim;
  const bool lower = op.in == Slot::queries;
  const Buffer& from = lower ? x.queries : x.latents;
  const std::uint32_t stride = attention.heads * query + (lower ? 0 : attention.head_dim);
  const HeadRows to{x.qkv, 0, qkv_stride, attention.head_dim};
  MILLRACE_TRY(op.products->copy({from, plain, stride, query}, to, turned, tokens));
  return op.products->run(*op.matrix, {from, 0, stride, query},
                          {x.qkv, turned, qkv_stride, attention.head_dim}, tokens);
}

}  // namespace

Status prepare_layer(Operations& operations, const LayerProgram& layer) {
  if (layer.spec->attention.exists()) {
    MILLRACE_TRY(operations.prepare_attention(layer.kv.codecs, layer.kv.kind));
  }
  for (const LayerOp& operation : layer.operations) {
    if (const auto* product = std::get_if<ProductOp>(&operation)) {
      MILLRACE_TRY(operations.prepare_product(*product->matrix));
    } else if (const auto* by_head = std::get_if<HeadProductOp>(&operation)) {
      MILLRACE_TRY(by_head->products->prepare(*by_head->matrix));
    } else if (const auto* gated = std::get_if<GatedOp>(&operation)) {
      MILLRACE_TRY(operations.prepare_product(*gated->matrix));
    } else if (const auto* gate = std::get_if<EmbeddingGateOp>(&operation)) {
      MILLRACE_TRY(operations.prepare_product(*gate->matrix));
    } else if (const auto* recurrence = std::get_if<RecurrenceOp>(&operation)) {
      MILLRACE_TRY(recurrence->recurrence->prepare());
    }
  }
  return {};
}

Status run_layer(Operations& operations, const LayerProgram& layer, const Activations& x,
                 const StepTable& step, const Buffer& step_words) {
  Operations& ops = operations;
  const std::uint32_t n = step.tokens;
  const auto run = [&](const LayerOp& operation) -> Status {
    if (const auto* norm = std::get_if<NormOp>(&operation)) {
      if (norm->weight == nullptr) return ops.convert(x.hidden, x.normed, norm->forms, n);
      const Activation& out = norm->out == Slot::routed ? x.routed : x.normed;
      return ops.norm(x.hidden, *norm->weight, out, norm->forms, step, step_words, false);
    }
    if (const auto* product = std::get_if<ProductOp>(&operation)) {
      const Projection& matrix = *product->matrix;
      const bool to_qkv = product->out == Slot::qkv;
      const bool to_width = product->out == Slot::hidden || product->out == Slot::branch;
      return ops.project(matrix, x.product_input(*product), n, x.product_output(product->out),
                         to_qkv     ? qkv_stride(layer, matrix, ops)
                         : to_width ? ops.width_stride()
                                    : matrix.rows,
                         product->accumulate);
    }
    if (std::holds_alternative<TurnOp>(operation)) {
      return ops.turn_heads(x.qkv, *layer.rope, layer.kv.kind, step, step_words);
    }
    if (const auto* scale = std::get_if<QueryScaleOp>(&operation)) {
      return ops.scale_queries(x.qkv, *scale->factors, layer.kv.kind, step, step_words);
    }
    if (const auto* heads = std::get_if<HeadNormOp>(&operation)) {
      return ops.norm_heads(x.qkv, *heads->weight, layer.kv.kind, n);
    }
    if (std::holds_alternative<StoreOp>(operation)) {
      return ops.rope_and_store(x.qkv, *layer.rope, layer.kv, step, step_words);
    }
    if (const auto* attend = std::get_if<AttendOp>(&operation)) {
      const Activation& out =
          attend->out == Slot::summed ? x.summed : x.attended.at(layer.spec->attention.columns());
      return ops.attend(x.qkv, *layer.rope, layer.kv, out, attend->forms, step, step_words);
    }
    if (const auto* split = std::get_if<SplitOp>(&operation)) {
      return ops.split_latents(x.latents, *split, layer.kv.kind, x.query_latent, x.qkv, n);
    }
    if (const auto* by_head = std::get_if<HeadProductOp>(&operation)) {
      return multiply_heads(ops, layer.spec->attention, *by_head, x,
                            ops.kind(layer.kv.kind).qkv_stride(), n);
    }
    if (const auto* gate = std::get_if<GateOutputOp>(&operation)) {
      return ops.gate_output(x.qkv, x.attended.at(layer.spec->attention.columns()), gate->forms,
                             layer.kv.kind, n);
    }
    if (const auto* recurrence = std::get_if<RecurrenceOp>(&operation)) {
      const std::uint32_t columns = layer.spec->recurrence.outputs();
      const Activation& out = x.attended.at(columns);
      MILLRACE_TRY(recurrence->recurrence->run(
          {*recurrence->weights, x.qkv, *recurrence->states, out.rows, step, step_words}));
      return ops.complete(out, {.rows = true}, recurrence->forms, columns, n);
    }
    if (const auto* gated = std::get_if<GatedOp>(&operation)) {
      return ops.gated(x.normed, *gated->matrix, x.gate_up,
                       x.activated.at(gated_columns(*gated->matrix)), gated->forms, n);
    }
    if (const auto* gate = std::get_if<EmbeddingGateOp>(&operation)) {
      return ops.gate_embedding(x.normed, *gate->matrix, *gate->embeddings, gate->layer, x.gate_up,
                                x.activated_of(gate->matrix->rows), gate->forms, n);
    }
    if (const auto* experts = std::get_if<ExpertsOp>(&operation)) {
      const ExpertsInput in{.x = x.normed,
                            .tokens = n,
                            .shared = experts->shared ? x.branch : no_buffer,
                            .shared_stride = experts->shared ? ops.width_stride() : 0,
                            .routed = x.routed.rows ? &x.routed : nullptr};
      const bool joins = experts->out == Slot::hidden;
      return experts->experts->run(*experts->weights, in,
                                   {.rows = joins ? x.hidden : x.branch,
                                    .accumulate = joins ? Accumulate::add : Accumulate::replace,
                                    .scale = experts->scale});
    }
    const auto& add = std::get<AddOp>(operation);
    return ops.add_branch({.to = add.to == Slot::hidden ? x.hidden : x.mixed,
                           .from = add.from == Slot::branch ? x.branch : x.mixed,
                           .weight = add.weight != nullptr ? *add.weight : no_buffer,
                           .total = add.total != nullptr ? *add.total : no_buffer,
                           .scale = add.scale,
                           .accumulate = add.accumulate},
                          n);
  };
  for (const LayerOp& operation : layer.operations) MILLRACE_TRY(run(operation));
  return {};
}

}  // namespace millrace::engine
