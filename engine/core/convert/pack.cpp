#include "engine/core/convert/pack.hpp"

#include <cstring>

namespace millrace::engine {
namespace {

using Packed = std::byte*;  // all bits are zero until they are put

void put(std::byte& to, int value, std::size_t at) {
  to |= static_cast<std::byte>(value << at);
}

int bits_of(int value, int at, int bits) {
  return value >> at & ((1 << bits) - 1);
}

// The low four bits of 32 codes in 16 bytes: those of codes 0-15 are low nibbles.
void nibbles(const std::uint8_t* codes, Packed out) {
  for (std::size_t i = 0; i < 32; ++i) put(out[i % 16], codes[i] & 15, i / 16 * 4);
}

void q8_0(const CodedBlock& block, Packed out) {
  for (std::size_t i = 0; i < 32; ++i) put(out[2 + i], block.codes[i] ^ 0x80, 0);
}

void q4_0(const CodedBlock& block, Packed out) {
  nibbles(block.codes.data(), out + 2);
}

void q4_1(const CodedBlock& block, Packed out) {
  nibbles(block.codes.data(), out + 4);
}

void mxfp4(const CodedBlock& block, Packed out) {
  put(out[0], block.exponent, 0);
  nibbles(block.codes.data(), out + 1);
}

// Four bytes with the fifth bit of each code, then nibbles.
void five_bits(const CodedBlock& block, Packed out) {
  for (std::size_t i = 0; i < 32; ++i) put(out[i / 8], block.codes[i] >> 4, i % 8);
  nibbles(block.codes.data(), out + 4);
}

void q5_0(const CodedBlock& block, Packed out) {
  five_bits(block, out + 2);
}

void q5_1(const CodedBlock& block, Packed out) {
  five_bits(block, out + 4);
}

// Eight scales and eight minimums of six bits in the 12 bytes after the halves of Q4_K and Q5_K.
void k_head(const CodedBlock& block, Packed out) {
  for (std::size_t g = 0; g < 4; ++g) {
    const std::size_t late = g + 4;
    put(out[4 + g], block.steps[g], 0);
    put(out[8 + g], block.minimum_steps[g], 0);
    put(out[12 + g], bits_of(block.steps[late], 0, 4), 0);
    put(out[12 + g], bits_of(block.minimum_steps[late], 0, 4), 4);
    put(out[4 + g], bits_of(block.steps[late], 4, 2), 6);
    put(out[8 + g], bits_of(block.minimum_steps[late], 4, 2), 6);
  }
}

// The low two bits of 256 codes in 64 bytes: a byte holds codes that are 32 apart.
void two_bits(const CodedBlock& block, Packed out) {
  for (std::size_t e = 0; e < 256; ++e) {
    put(out[e / 128 * 32 + e % 32], block.codes[e] & 3, e % 128 / 32 * 2);
  }
}

void q2_k(const CodedBlock& block, Packed out) {
  for (std::size_t g = 0; g < 16; ++g) {
    put(out[g], block.steps[g], 0);
    put(out[g], block.minimum_steps[g], 4);
  }
  two_bits(block, out + 16);
}

// The engine's codes of Q3_K have the offset 8, the three bits of the file the offset 4.
void q3_k(const CodedBlock& block, Packed out) {
  const Packed scales = out + 96;
  CodedBlock three = block;
  for (std::size_t e = 0; e < 256; ++e) {
    three.codes[e] = static_cast<std::uint8_t>(block.codes[e] - 4);
    put(out[e % 32], three.codes[e] >> 2, e / 32);
  }
  two_bits(three, out + 32);
  for (std::size_t g = 0; g < 16; ++g) {
    const int s = block.steps[g] + 32;
    put(scales[g % 8], bits_of(s, 0, 4), g / 8 * 4);
    put(scales[8 + g % 4], bits_of(s, 4, 2), g / 4 * 2);
  }
}

// Pairs of groups share 32 bytes: the first group has the low nibbles.
void pair_nibbles(const CodedBlock& block, Packed out) {
  for (std::size_t e = 0; e < 256; ++e) {
    put(out[e / 64 * 32 + e % 32], block.codes[e] & 15, e % 64 / 32 * 4);
  }
}

void q4_k(const CodedBlock& block, Packed out) {
  k_head(block, out);
  pair_nibbles(block, out + 16);
}

void q5_k(const CodedBlock& block, Packed out) {
  k_head(block, out);
  for (std::size_t e = 0; e < 256; ++e) put(out[16 + e % 32], block.codes[e] >> 4, e / 32);
  pair_nibbles(block, out + 48);
}

void q6_k(const CodedBlock& block, Packed out) {
  for (std::size_t e = 0; e < 256; ++e) {
    const std::size_t half = e / 128, i = e % 128;
    put(out[half * 64 + i % 64], block.codes[e] & 15, i / 64 * 4);
    put(out[128 + half * 32 + i % 32], block.codes[e] >> 4, i / 32 * 2);
  }
  for (std::size_t g = 0; g < 16; ++g) put(out[192 + g], block.steps[g] & 255, 0);
}

void iq4_xs(const CodedBlock& block, Packed out) {
  for (std::size_t g = 0; g < 8; ++g) {
    const int s = block.steps[g] + 32;
    put(out[2 + g / 4], bits_of(s, 4, 2), g % 4 * 2);
    put(out[4 + g / 2], bits_of(s, 0, 4), g % 2 * 4);
    nibbles(&block.codes[32 * g], out + 8 + 16 * g);
  }
}

struct Packer {
  TensorType type;
  void (*pack)(const CodedBlock& block, Packed out);
};

constexpr Packer kPackers[] = {
    {TensorType::q8_0, q8_0},   {TensorType::q4_0, q4_0},   {TensorType::q4_1, q4_1},
    {TensorType::q5_0, q5_0},   {TensorType::q5_1, q5_1},   {TensorType::q2_k, q2_k},
    {TensorType::q3_k, q3_k},   {TensorType::q4_k, q4_k},   {TensorType::q5_k, q5_k},
    {TensorType::q6_k, q6_k},   {TensorType::iq4_nl, q4_0}, {TensorType::iq4_xs, iq4_xs},
    {TensorType::mxfp4, mxfp4},
};

const Packer* find_packer(TensorType type) {
  for (const Packer& packer : kPackers)
    if (packer.type == type) return &packer;
  return nullptr;
}

}  // namespace

bool can_pack(TensorType type) {
  return find_packer(type) != nullptr;
}

void pack_block(const QuantTraits& traits, const CodedBlock& block, std::byte* out) {
  std::memset(out, 0, traits_of(traits.type).block_bytes);
  const std::uint16_t halves[] = {block.scale, block.minimum};
  std::memcpy(out + traits.halves_at, halves, traits.halves * sizeof halves[0]);
  find_packer(traits.type)->pack(block, out);
}

}  // namespace millrace::engine
