#pragma once
// Thirty-two consecutive weights of a row, from a file's block to what a panel holds: the one place
// that knows both (panel.hpp says what the numbers mean). A new quantized type needs an entry in
// format_of and a reader here. Thread safety: pure functions.
#include <array>
#include <cstddef>
#include <cstdint>

#include "engine/core/gguf/tensor_type.hpp"

namespace millrace::engine {

struct WeightBlock {
  std::array<std::uint8_t, 32> codes{};  // in the order of the columns
  // As the format asks: d; d and m; or the d of columns 0..15 and that of 16..31. The bits of a
  // half in the low 16, or those of a float.
  std::array<std::uint32_t, 2> scales{};
};

// Reads columns 32*index and on of a quantized row.
using BlockReader = void (*)(const std::byte* row, std::uint32_t index, WeightBlock& out);

// Null for types that are not quantized.
BlockReader block_reader(TensorType type);

}  // namespace millrace::engine
