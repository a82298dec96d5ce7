#include "engine/core/model/model_weights.hpp"

#include <array>
#include <utility>

namespace millrace::engine {

Status ModelWeights::load_weights(Operations& operations, const GgufFile& file,
                                  std::uint32_t step_tokens, WeightUploads& uploads) {
  const Backend& backend = operations.backend();
  const ModelSpec& spec = operations.target().spec;
  const std::uint32_t padded = round_up(spec.width, block_columns);
  const auto embedding_part = std::to_array<MatrixPart>(
      {{.name = "token_embd", .rows = spec.vocabulary, .may_have_bias = false, .exact = true}});
  MILLRACE_ASSIGN(embedding, load_projection(backend, file, embedding_part, spec.width, uploads));
  if (!spec.tied_output) {
    const auto output_part = std::to_array<MatrixPart>({{"output", spec.vocabulary, false}});
    MILLRACE_ASSIGN(output, load_projection(backend, file, output_part, spec.width, uploads));
  }
  MILLRACE_ASSIGN(output_norm, load_vector(*operations.target().device, file,
                                           spec.output_norm + ".weight", spec.width, padded));
  MILLRACE_TRY(layer_embedding.load(operations, file, step_tokens, uploads));
  layers.reserve(spec.layers.size());
  for (std::uint32_t i = 0; i < spec.layer_count(); ++i) {
    MILLRACE_ASSIGN(LayerWeights layer, load_layer(backend, file, spec, i, uploads));
    layers.push_back(std::move(layer));
    expert_weights.emplace_back();
    const auto& mixture = spec.layers[i].feed_forward.experts;
    if (!mixture) continue;
    const Gate gate = spec.layers[i].feed_forward.gate;
    MILLRACE_ASSIGN(expert_weights[i],
                    load_experts(backend, file, *mixture, gate, spec.width, i, uploads));
  }
  return {};
}

}  // namespace millrace::engine
