#pragma once
// One form for the blocks of all quantized tensor types. A block is unsigned codes of 2 to 8 bits,
// a scale for each group of codes and, if the type is affine, a minimum for each group:
//
//   x[i] = scale[i / group] * (code[i] - offset)
//   x[i] = scale[i / group] * code[i] + minimum[i / group]      affine; the offset is 0
//   x[i] = scale[i / group] * levels[code[i]]                   a type with levels
//
// In types with steps, a scale is the product of a step, a small integer of the group, and a half
// of the block; a minimum likewise. Scales and minimums are exact in fp32 (a half, a half times an
// integer of at most 8 bits and a power of two, or a small float of the format itself), and so is
// the product with a code or level. An element is therefore rounded once, in the sum, with or
// without a fused multiply-add. Dequantization, the packing for the device and the check for
// numbers that are not finite all use this form: a new type needs a row of the table and a function
// that describes the bytes. Thread safety: constants and pure functions.
#include <array>
#include <cstddef>
#include <cstdint>

#include "engine/core/gguf/tensor_type.hpp"

namespace millrace::engine {

inline constexpr std::size_t most_block_elements = 256, least_group_elements = 16;

struct QuantBlock {
  static constexpr std::size_t most_groups = most_block_elements / least_group_elements;
  std::array<std::uint8_t, most_block_elements> codes;
  std::array<float, most_groups> scales;
  std::array<float, most_groups> minimums;  // if affine
  std::array<std::int8_t, most_groups> steps;
  std::array<std::int8_t, most_groups> minimum_steps;  // of -m, where m is the second half
};

// How a type's scales and minimums can be kept without a change of their values: as halves of the
// block itself, as steps of a half, or as floats.
enum class ScaleForm : std::uint8_t { steps = 1, halves = 2, floats = 4 };  // and their bytes

// The values of the codes 0 to 15.
using Levels = std::array<std::int8_t, 16>;

struct QuantTraits {
  TensorType type;
  std::uint32_t group_elements;  // 16 or 32
  std::uint8_t bits;             // of a code: 2, 4, 5, 6 or 8
  std::uint8_t offset;  // half the range of the bits, or 0 if affine or with levels: so types with
                        // equal bits and groups are the same to a kernel and can share a launch
  bool affine;
  ScaleForm scales;
  // The halves from which all scales of the block follow: their number (two if affine, none if the
  // type has other floats) and their offset in the block. The scales are finite if they are.
  std::uint32_t halves, halves_at;
  // Fills the codes; with steps also those, with floats also scales and minimums.
  void (*fill)(const std::byte* block, QuantBlock& out);
  const Levels* levels = nullptr;
  // Whether all numbers are finite, of a type without halves that has others; null otherwise.
  bool (*is_finite)(const std::byte* block) = nullptr;
};

// Null for the types without blocks: F32, F16, BF16.
const QuantTraits* find_quant_traits(TensorType type);

// Unpacks a block: its codes, scales and, if it has them, minimums and steps.
void unpack_block(const QuantTraits& traits, const std::byte* block, QuantBlock& out);

}  // namespace millrace::engine
