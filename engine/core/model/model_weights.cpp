#include "engine/core/model/model_weights.hpp"

#include <algorithm>
#include <array>
#include <utility>

namespace millrace::engine {

Status ModelWeights::load_weights(Operations& operations, const GgufFile& file,
                                  const LayerRange& range, std::uint32_t step_tokens,
                                  WeightUploads& uploads) {
  const Backend& backend = operations.backend();
  const ModelSpec& spec = operations.target().spec;
  const std::uint32_t padded = round_up(spec.width, block_columns);
  const auto embedding_part = std::to_array<MatrixPart>(
      {{.name = "token_embd", .rows = spec.vocabulary, .may_have_bias = false, .exact = true}});
  const bool last = range.has(spec.layer_count() - 1);
  if (range.first == 0 || (last && spec.tied_output)) {
    MILLRACE_ASSIGN(embedding, load_projection(backend, file, embedding_part, spec.width, uploads));
  }
  if (last && !spec.tied_output) {
    const auto output_part = std::to_array<MatrixPart>(
        {{.name = "output", .rows = spec.vocabulary, .may_have_bias = false, .logits = true}});
    MILLRACE_ASSIGN(output, load_projection(backend, file, output_part, spec.width, uploads));
  }
  if (last) {
    MILLRACE_ASSIGN(output_norm, load_vector(*operations.target().device, file,
                                             spec.output_norm + ".weight", spec.width, padded));
  }
  MILLRACE_TRY(layer_embedding.load(operations, file, step_tokens, uploads));
  layers.resize(spec.layers.size());
  expert_weights.resize(spec.layers.size());
  for (std::uint32_t i = range.first; i < std::min(range.end, spec.layer_count()); ++i) {
    MILLRACE_ASSIGN(layers[i], load_layer(backend, file, spec, i, uploads));
    const auto& mixture = spec.layers[i].feed_forward.experts;
    if (!mixture) continue;
    const Gate gate = spec.layers[i].feed_forward.gate;
    MILLRACE_ASSIGN(expert_weights[i],
                    load_experts(backend, file, *mixture, gate, spec.width, i, uploads));
  }
  return {};
}

}  // namespace millrace::engine
