#pragma once
// The quantized tensor types taken apart. Whatever a block's bytes look like, it is unsigned codes
// of 4 or 8 bits, a scale for each group of them and, where the type is affine, a minimum:
//
//   x[i] = scale[i / group] * (code[i] - offset)
//   x[i] = scale[i / group] * code[i] + minimum[i / group]      affine; the offset is 0
//
// Scales and minimums are exact in fp32 (a half, or a half times an integer of at most 8 bits), and
// so is the product with a code; so fused or not, an element is rounded once, in the sum.
// Dequantization, the packing for the device and the check for numbers that are not finite are all
// made of this: a new type is a row of the table and a function in the source, where its bytes are
// drawn. Thread safety: constants and pure functions.
#include <array>
#include <cstddef>
#include <cstdint>

#include "engine/core/gguf/tensor_type.hpp"

namespace millrace::engine {

inline constexpr std::size_t most_block_elements = 256, least_group_elements = 16;

struct QuantBlock {
  std::array<std::uint8_t, most_block_elements> codes;
  std::array<float, most_block_elements / least_group_elements> scales;
  std::array<float, most_block_elements / least_group_elements> minimums;  // if affine
};

struct QuantTraits {
  TensorType type;
  std::uint32_t group_elements;  // 16 or 32
  std::uint8_t bits;             // of a code: 4 or 8
  std::uint8_t offset;  // half of what the bits hold, whatever the file's codes need: so types of
                        // 8 bits and one group look alike to a kernel, and may share a launch
  bool affine;
  bool half_scales;  // scale and minimum are the block's halves themselves; else they need fp32
  // Where the block's halves begin, of which all its scales are made: one, or two if affine.
  std::uint32_t halves_at;
  void (*unpack)(const std::byte* block, QuantBlock& out);  // fills what the type has

  std::uint32_t halves() const { return affine ? 2 : 1; }
};

// Null for the types whose elements stand alone: F32, F16, BF16.
const QuantTraits* find_quant_traits(TensorType type);

}  // namespace millrace::engine
