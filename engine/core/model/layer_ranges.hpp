#pragma once
// Cuts the layers of a model into consecutive ranges, one for each device of a pipeline.
// Thread safety: pure functions.
#include <cstdint>
#include <span>
#include <vector>

#include "engine/core/families/spec.hpp"
#include "engine/core/gguf/file.hpp"
#include "engine/core/kv/cache_shape.hpp"
#include "schemas/base/error.hpp"

namespace millrace::engine {

// Bytes that a step reads of each layer's weights; those of the output matrix are the last layer's.
std::vector<std::uint64_t> layer_bytes(const GgufFile& file, const ModelSpec& spec);

// The ranges of `stages` stages whose largest has the fewest of `bytes`, which each layer takes.
// There are as many layers as stages at least.
std::vector<LayerRange> even_ranges(std::span<const std::uint64_t> bytes, std::uint32_t stages);

// The ranges for so many stages: `counts` layers each, or even ones if it is empty. Errors:
// invalid_value for more stages than layers, or counts that are not the model's;
// unsupported_architecture for a model whose layers need each other besides the residual stream, if
// it is cut there.
Result<std::vector<LayerRange>> layer_ranges(const GgufFile& file, const ModelSpec& spec,
                                             std::uint32_t stages,
                                             std::span<const std::uint32_t> counts);

}  // namespace millrace::engine
