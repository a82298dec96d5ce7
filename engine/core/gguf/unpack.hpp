#pragma once
// The functions that unpack the blocks of each type, for quant_block.cpp, and what they share.
// Comments beside the functions describe the bytes. Thread safety: pure functions.
#include <cstring>

#include "engine/core/gguf/half.hpp"
#include "engine/core/gguf/load.hpp"
#include "engine/core/gguf/quant_block.hpp"

namespace millrace::engine::unpack {

using Packed = const std::byte*;

// Super-blocks of 256 elements: unpack_k.cpp.
void q2_k(Packed block, QuantBlock& out);
void q3_k(Packed block, QuantBlock& out);
void q4_k(Packed block, QuantBlock& out);
void q5_k(Packed block, QuantBlock& out);
void q6_k(Packed block, QuantBlock& out);

// Super-blocks whose codes number levels: unpack_iq.cpp.
void iq4_xs(Packed block, QuantBlock& out);
void iq3_s(Packed block, QuantBlock& out);
void iq3_xxs(Packed block, QuantBlock& out);
void iq2_s(Packed block, QuantBlock& out);
void iq2_xs(Packed block, QuantBlock& out);
void iq2_xxs(Packed block, QuantBlock& out);

inline float half_at(Packed from) {
  return half_to_float(load<std::uint16_t>(from));
}

inline int low(std::byte byte) {
  return std::to_integer<int>(byte) & 15;
}
inline int high(std::byte byte) {
  return std::to_integer<int>(byte) >> 4;
}
// Returns `bits` bits of a byte, from bit `at` on.
inline int field(std::byte byte, std::size_t at, int bits) {
  return (std::to_integer<int>(byte) >> at) & ((1 << bits) - 1);
}
// Returns nibble i of some bytes, low ones first.
inline int nibble(Packed from, std::size_t i) {
  return field(from[i / 2], i % 2 * 4, 4);
}
inline std::uint8_t code(int value) {
  return static_cast<std::uint8_t>(value);
}
// Eight bytes at once, such as eight codes: a byte at a time, packing takes twice as long.
inline std::uint64_t eight(Packed from) {
  return load<std::uint64_t>(from);
}
// Returns `bits` bits of each of eight bytes, from bit `at` on.
inline std::uint64_t fields(std::uint64_t bytes, std::size_t at, int bits) {
  return bytes >> at & ((1u << bits) - 1) * std::uint64_t{0x0101010101010101};
}
inline void store_eight(std::uint8_t* codes, std::uint64_t bytes) {
  std::memcpy(codes, &bytes, sizeof bytes);
}
// Unpacks 32 codes of four bits from 16 bytes: low nibbles are elements 0-15, high ones 16-31.
inline void nibbles(Packed packed, std::uint8_t* codes) {
  for (std::size_t i = 0; i < 16; i += 8) {
    store_eight(codes + i, fields(eight(packed + i), 0, 4));
    store_eight(codes + i + 16, fields(eight(packed + i), 4, 4));
  }
}

}  // namespace millrace::engine::unpack
