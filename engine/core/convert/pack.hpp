#pragma once
// The bytes of a quantized block from its codes, steps and halves: the inverse of unpack_block
// (engine/core/gguf/quant_block.hpp), whose sources describe the bytes. Thread safety: pure
// functions.
#include <array>
#include <cstddef>
#include <cstdint>

#include "engine/core/gguf/quant_block.hpp"

namespace millrace::engine {

// What an encoder decides of a block. Codes are those of QuantBlock: unsigned, with the offset that
// the type's bits imply (half their range, 0 if affine or with levels).
struct CodedBlock {
  std::array<std::uint8_t, most_block_elements> codes{};
  std::array<std::int8_t, QuantBlock::most_groups> steps{};
  std::array<std::int8_t, QuantBlock::most_groups> minimum_steps{};
  std::uint16_t scale = 0, minimum = 0;  // halves, as many as the type has
  std::uint8_t exponent = 0;             // MXFP4: the scale is 2^(exponent - 128)
};

// Whether there is a function that packs this type.
bool can_pack(TensorType type);

// Writes all bytes of a block of a type that can be packed.
void pack_block(const QuantTraits& traits, const CodedBlock& block, std::byte* out);

}  // namespace millrace::engine
