#pragma once
// Blocks of any tensor type with random contents and with scales that the test chooses.
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "engine/core/gguf/quant_block.hpp"
#include "tests/support/device.hpp"

namespace millrace::testing {

template <class T>
void append_value(std::vector<std::byte>& to, T value) {
  const auto* const start = reinterpret_cast<const std::byte*>(&value);
  to.insert(to.end(), start, start + sizeof value);
}

// Appends one block of a quantized type; half_of(i) gives the bits of its half i, first of the
// scale, then of the minimum. The scales of types without halves make weights of up to some tenths.
template <class HalfOf>
void append_random_block(std::vector<std::byte>& to, engine::TensorType type, Random& random,
                         HalfOf half_of) {
  const auto& quantized = *engine::find_quant_traits(type);
  const std::size_t start = to.size();
  for (std::uint32_t i = 0; i < engine::traits_of(type).block_bytes; ++i) {
    append_value(to, static_cast<std::uint8_t>(random.below(256)));
  }
  for (std::uint32_t i = 0; i < quantized.halves; ++i) {
    const std::uint16_t half = half_of(i);
    std::memcpy(&to[start + quantized.halves_at + i * sizeof half], &half, sizeof half);
  }
  if (type == engine::TensorType::mxfp4) {
    to[start] = static_cast<std::byte>(119 + random.below(4));
  } else if (type == engine::TensorType::nvfp4) {
    for (std::size_t i = 0; i < 4; ++i) {
      to[start + i] = static_cast<std::byte>(8 + random.below(16));
    }
  }
}

}  // namespace millrace::testing
