#include "engine/core/model/layer_embedding.hpp"

#include <array>
#include <cmath>

namespace millrace::engine {

Status LayerEmbedding::load(Operations& operations, const GgufFile& file, std::uint32_t tokens,
                            WeightUploads& uploads) {
  const Backend& backend = operations.backend();
  const ModelSpec& spec = backend.target().spec;
  if (spec.layer_embedding == 0) return {};
  Device& device = *backend.target().device;
  const std::uint32_t columns = spec.layer_count() * spec.layer_embedding;
  const auto table = std::to_array<MatrixPart>({{.name = "per_layer_token_embd",
                                                 .rows = spec.vocabulary,
                                                 .may_have_bias = false,
                                                 .exact = true}});
  MILLRACE_ASSIGN(table_, load_projection(backend, file, table, columns, uploads));
  const auto matrix = std::to_array<MatrixPart>({{"per_layer_model_proj", columns, false}});
  MILLRACE_ASSIGN(projection_, load_projection(backend, file, matrix, spec.width, uploads));
  MILLRACE_ASSIGN(norm_, load_vector(device, file, "per_layer_proj_norm.weight",
                                     spec.layer_embedding, spec.layer_embedding));
  const std::uint64_t bytes = std::uint64_t{tokens} * columns * sizeof(float);
  MILLRACE_ASSIGN(rows_, device.allocate(bytes, "embeddings by layer"));
  MILLRACE_ASSIGN(projected_, device.allocate(bytes, "embeddings by layer"));
  operations_ = &operations;
  return {};
}

Status LayerEmbedding::prepare() {
  if (!exists()) return {};
  MILLRACE_TRY(operations_->prepare_embedding(table_));
  return operations_->prepare_product(projection_);
}

// The number of columns is a multiple of 16, so the projection has as many rows.
Status LayerEmbedding::run(const Buffer& hidden, const Activation& normed, const StepTable& step,
                           const Buffer& step_words, const Buffer& ids) {
  const std::uint32_t stride = table_.columns;
  const std::uint32_t channels = operations_->backend().target().spec.layer_embedding;
  const auto scale = static_cast<float>(std::sqrt(static_cast<double>(channels)));
  MILLRACE_TRY(operations_->embed(table_, step, step_words, ids, {rows_, stride, scale}));
  MILLRACE_TRY(operations_->convert(hidden, normed, inputs(), step.tokens));
  MILLRACE_TRY(operations_->project(projection_, normed, step.tokens, projected_, stride,
                                    Accumulate::replace));
  return operations_->embed_by_layer(rows_, projected_, norm_, step.tokens);
}

}  // namespace millrace::engine
