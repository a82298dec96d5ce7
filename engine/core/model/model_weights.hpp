#pragma once
// The weights of a model, or of some of its layers. Errors: those of weights.hpp and
// expert_weights.hpp. Thread safety: the device's owner thread.
#include <cstdint>
#include <optional>
#include <vector>

#include "engine/core/gguf/file.hpp"
#include "engine/core/kv/cache_shape.hpp"
#include "engine/core/model/expert_weights.hpp"
#include "engine/core/model/layer_embedding.hpp"
#include "engine/core/model/operations.hpp"
#include "engine/core/model/weight_uploads.hpp"
#include "engine/core/model/weights.hpp"
#include "schemas/base/error.hpp"

namespace millrace::engine {

struct ModelWeights {
  Projection embedding, output;  // output is empty if the embedding serves as both
  Buffer output_norm;
  LayerEmbedding layer_embedding;
  std::vector<LayerWeights> layers;                          // of the whole model
  std::vector<std::optional<ExpertWeights>> expert_weights;  // by layer

  // Allocates them for layers of the operations' model, for steps of so many tokens; `uploads`
  // fills them. What is not of these layers stays empty: the embedding is the first layer's, the
  // output and its norm are the last one's.
  Status load_weights(Operations& operations, const GgufFile& file, const LayerRange& range,
                      std::uint32_t step_tokens, WeightUploads& uploads);
};

}  // namespace millrace::engine
