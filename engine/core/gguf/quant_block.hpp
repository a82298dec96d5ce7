#pragma once
// One form for the blocks of all quantized tensor types. A block is unsigned codes of 4 or 8 bits,
// a scale for each group of codes and, if the type is affine, a minimum for each group:
//
//   x[i] = scale[i / group] * (code[i] - offset)
//   x[i] = scale[i / group] * code[i] + minimum[i / group]      affine; the offset is 0
//
// Scales and minimums are exact in fp32 (a half, or a half times an integer of at most 8 bits), and
// so is the product with a code. An element is therefore rounded once, in the sum, with or without
// a fused multiply-add. Dequantization, the packing for the device and the check for numbers that
// are not finite all use this form: a new type needs a row of the table and a function in the
// source, which describes the bytes. Thread safety: constants and pure functions.
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
  std::uint8_t offset;  // half the range of the bits, or 0 if affine, for every type: so types with
                        // equal bits and groups are the same to a kernel and can share a launch
  bool affine;
  bool half_scales;  // scale and minimum are halves of the block itself; else they need fp32
  // Offset in the block of the halves from which all its scales follow: one, or two if affine.
  std::uint32_t halves_at;
  void (*unpack)(const std::byte* block, QuantBlock& out);  // fills the members that the type has

  std::uint32_t halves() const { return affine ? 2 : 1; }
};

// Null for the types without blocks: F32, F16, BF16.
const QuantTraits* find_quant_traits(TensorType type);

}  // namespace millrace::engine
