#include "engine/core/model/layer_program.hpp"

#include <optional>

namespace millrace::engine {
namespace {

// Appends the operations of a layer in order.
class Compiler {
 public:
  Compiler(const LayerSpec& spec, const LayerParts& parts, LayerProgram& out)
      : spec_(spec), parts_(parts), w_(parts.weights), out_(out) {}

  void compile() {
    if (spec_.attention.exists() || parts_.recurrence != nullptr) {
      norm(w_.attention_norm, spec_.norms.attention);
    }
    if (spec_.attention.exists()) attention();
    if (parts_.recurrence != nullptr) recurrence();
    if (spec_.feed_forward.exists()) feed_forward();
    if (!w_.embedding_gate.runs.empty()) embedding();
    if (spec_.output_scale) scale_output();
  }

 private:
  void attention() {
    if (w_.latent) {
      latents(*w_.latent);
    } else {
      add(ProductOp{&w_.qkv, Slot::normed, Slot::qkv});
    }
    if (spec_.attention.norm_after_rope) add(TurnOp{});
    if (spec_.attention.head_norm != HeadNorm::none) add(HeadNormOp{&w_.head_norm});
    if (spec_.attention.temperature_beta != 0.0f) add(QueryScaleOp{&parts_.query_factors});
    add(StoreOp{});
    if (w_.latent) {
      add(AttendOp{{}, Slot::summed});
      add(HeadProductOp{parts_.head_products, &w_.latent->values, Slot::summed, Slot::attended});
    } else {
      add(AttendOp{});
    }
    if (spec_.attention.output_gate) add(GateOutputOp{});
    join_mixer(w_.attention_output);
  }
  void recurrence() {
    add(ProductOp{&w_.recurrence.in, Slot::normed, Slot::qkv});
    add(RecurrenceOp{parts_.recurrence, &w_.recurrence, &parts_.states});
    join_mixer(w_.recurrence.out);
  }
  void join_mixer(const Projection& matrix) {
    const NormNames& names = spec_.norms;
    join(matrix, Slot::attended, w_.attention_post_norm,
         after() ? names.attention : names.attention_post);
  }
  void feed_forward() {
    const NormNames& names = spec_.norms;
    if (spec_.placement != NormPlacement::parallel) norm(w_.ffn_norm, names.feed_forward);
    if (spec_.feed_forward.has_both()) {
      experts_beside_dense();
    } else if (parts_.experts != nullptr) {
      experts();
    } else {
      add(GatedOp{&w_.gate_up});
      join(w_.down, Slot::activated, w_.ffn_post_norm,
           after() ? names.feed_forward : names.feed_forward_post);
    }
  }
  void experts_beside_dense() {
    const NormNames& names = spec_.norms;
    add(GatedOp{&w_.gate_up});
    add(ProductOp{&w_.down, Slot::activated, Slot::branch});
    add(AddOp{.weight = &w_.dense_post_norm,
              .name = names.dense_post,
              .to = Slot::mixed,
              .accumulate = Accumulate::replace});
    add(NormOp{&parts_.expert_weights->router_norm, "ffn_gate_inp.scale", {}, Slot::routed});
    norm(w_.experts_norm, names.experts);
    add(ExpertsOp{
        .experts = parts_.experts, .weights = parts_.expert_weights, .out = Slot::branch});
    add(AddOp{.weight = &w_.experts_post_norm, .name = names.experts_post, .to = Slot::mixed});
    add(AddOp{.weight = &w_.ffn_post_norm,
              .name = names.feed_forward_post,
              .scale = spec_.residual_scale,
              .from = Slot::mixed});
  }
  // Adds what the layer's embedding gives.
  void embedding() {
    add(NormOp{});
    add(EmbeddingGateOp{&w_.embedding_gate, &parts_.layer_embeddings, parts_.index,
                        parts_.embeddings_stride});
    add(ProductOp{&w_.embedding_output, Slot::activated, Slot::branch});
    add(AddOp{.weight = &w_.embedding_post_norm, .name = "post_norm"});
  }
  // The layer's last operation adds to hidden; it also multiplies the sum.
  void scale_output() {
    if (auto* last = std::get_if<AddOp>(&out_.operations.back())) last->total = &w_.output_scale;
  }
  bool after() const { return spec_.placement == NormPlacement::after; }
  void add(LayerOp operation) { out_.operations.push_back(operation); }
  void norm(const Buffer& weight, std::string_view name) {
    add(NormOp{.weight = weight ? &weight : nullptr, .name = name});
  }
  void latents(const LatentWeights& latent) {
    const bool lower = spec_.attention.latent->query_rank > 0;
    add(ProductOp{&w_.qkv, Slot::normed, Slot::latents});
    add(SplitOp{&w_.qkv, &latent});
    if (lower) add(ProductOp{&latent.query_b, Slot::query_latent, Slot::queries});
    add(HeadProductOp{parts_.head_products, &latent.keys, lower ? Slot::queries : Slot::latents,
                      Slot::qkv});
  }
  // Adds a sublayer's last product to the residual stream.
  void join(const Projection& matrix, Slot in, const Buffer& post_norm, std::string_view name) {
    if (!post_norm && spec_.residual_scale == 1.0f) {
      return add(ProductOp{&matrix, in, Slot::hidden, Accumulate::add});
    }
    add(ProductOp{&matrix, in, Slot::branch});
    add(AddOp{post_norm ? &post_norm : nullptr, name, spec_.residual_scale});
  }
  void experts() {
    const bool shared = spec_.feed_forward.experts->shared_width > 0;
    if (shared) {
      add(GatedOp{&parts_.expert_weights->shared_gate_up});
      add(ProductOp{&parts_.expert_weights->shared_down, Slot::activated, Slot::branch});
    }
    add(ExpertsOp{parts_.experts, parts_.expert_weights, shared, spec_.residual_scale});
  }

  const LayerSpec& spec_;
  const LayerParts& parts_;
  const LayerWeights& w_;
  LayerProgram& out_;
};

// The forms in which an operation reads an activation.
Forms forms_read(const LayerOp& operation, Slot slot, const Operations& operations) {
  if (const auto* product = std::get_if<ProductOp>(&operation)) {
    return product->in == slot ? operations.inputs_of(*product->matrix) : Forms{};
  }
  if (std::holds_alternative<GateOutputOp>(operation)) return {.rows = slot == Slot::attended};
  if (slot == Slot::routed) return {.rows = std::holds_alternative<ExpertsOp>(operation)};
  if (slot != Slot::normed) return {};
  if (const auto* gate = std::get_if<EmbeddingGateOp>(&operation)) {
    return operations.inputs_of(*gate->matrix);
  }
  if (const auto* gated = std::get_if<GatedOp>(&operation)) {
    return operations.inputs_of(*gated->matrix);
  }
  if (const auto* experts = std::get_if<ExpertsOp>(&operation)) {
    return experts->experts->inputs_of(*experts->weights);
  }
  return {};
}

// The activation that an operation writes in the forms that its readers ask for.
struct Written {
  Slot slot;
  Forms* forms;
};
std::optional<Written> written_by(LayerOp& operation) {
  if (auto* norm = std::get_if<NormOp>(&operation)) return Written{norm->out, &norm->forms};
  if (auto* attend = std::get_if<AttendOp>(&operation)) {
    return Written{attend->out, &attend->forms};
  }
  if (auto* split = std::get_if<SplitOp>(&operation)) {
    return Written{Slot::query_latent, &split->forms};
  }
  if (auto* heads = std::get_if<HeadProductOp>(&operation)) {
    return Written{heads->out, &heads->forms};
  }
  if (auto* gate = std::get_if<GateOutputOp>(&operation)) {
    return Written{Slot::attended, &gate->forms};
  }
  if (auto* recurrence = std::get_if<RecurrenceOp>(&operation)) {
    return Written{Slot::attended, &recurrence->forms};
  }
  if (auto* gated = std::get_if<GatedOp>(&operation)) {
    return Written{Slot::activated, &gated->forms};
  }
  if (auto* gate = std::get_if<EmbeddingGateOp>(&operation)) {
    return Written{Slot::activated, &gate->forms};
  }
  return std::nullopt;
}

// Gives each operation the forms in which others read its result before it is written again.
void resolve_forms(std::vector<LayerOp>& list, const Operations& operations) {
  for (std::size_t i = 0; i < list.size(); ++i) {
    const auto written = written_by(list[i]);
    if (!written) continue;
    for (std::size_t j = i + 1; j < list.size(); ++j) {
      *written->forms |= forms_read(list[j], written->slot, operations);
      const auto again = written_by(list[j]);
      if (again && again->slot == written->slot) break;
    }
  }
}

}  // namespace

LayerProgram compile_layer(const LayerSpec& spec, const LayerParts& parts,
                           const Operations& operations) {
  LayerProgram out{&spec, parts.kv, &parts.rope, {}};
  Compiler(spec, parts, out).compile();
  resolve_forms(out.operations, operations);
  return out;
}

}  // namespace millrace::engine
