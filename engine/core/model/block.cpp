#include "engine/core/model/block.hpp"

#include <bit>
#include <cstring>

namespace millrace::engine {
namespace {

constexpr std::size_t half_bytes = 2;

std::uint32_t half_at(const std::byte* from) {
  std::uint16_t bits;
  std::memcpy(&bits, from, sizeof bits);
  return bits;
}

// Sixteen bytes whose low bits are codes 0..15 of the block and whose high bits are codes 16..31.
void read_nibbles(const std::byte* from, WeightBlock& out) {
  for (std::uint32_t i = 0; i < 16; ++i) {
    const auto pair = std::to_integer<std::uint8_t>(from[i]);
    out.codes[i] = pair & 15u;
    out.codes[i + 16] = static_cast<std::uint8_t>(pair >> 4);
  }
}

// half d, nibbles.
void read_q4_0(const std::byte* row, std::uint32_t index, WeightBlock& out) {
  const std::byte* const block = row + std::size_t{index} * 18;
  out.scales[0] = half_at(block);
  read_nibbles(block + half_bytes, out);
}

// half d, half m, nibbles.
void read_q4_1(const std::byte* row, std::uint32_t index, WeightBlock& out) {
  const std::byte* const block = row + std::size_t{index} * 20;
  out.scales = {half_at(block), half_at(block + half_bytes)};
  read_nibbles(block + 2 * half_bytes, out);
}

// half d, 32 signed bytes.
void read_q8_0(const std::byte* row, std::uint32_t index, WeightBlock& out) {
  const std::byte* const block = row + std::size_t{index} * 34;
  out.scales[0] = half_at(block);
  for (std::uint32_t i = 0; i < 32; ++i) {  // adding 128 to a signed byte turns its top bit over
    out.codes[i] = std::to_integer<std::uint8_t>(block[half_bytes + i] ^ std::byte{0x80});
  }
}

}  // namespace

BlockReader block_reader(TensorType type) {
  switch (type) {
    case TensorType::f32:
    case TensorType::f16:
    case TensorType::bf16:
      return nullptr;
    case TensorType::q4_0:
      return read_q4_0;
    case TensorType::q4_1:
      return read_q4_1;
    case TensorType::q8_0:
      return read_q8_0;
  }
  return nullptr;
}

}  // namespace millrace::engine
