#pragma once
// Converts IEEE half precision and bfloat16 to float, exactly, and back, rounded to the nearest
// with ties to even. Only integer operations are used, so that the bits are the same on every
// machine. A NaN keeps its payload to float; from float it stays a NaN. Thread safety: pure
// functions.
#include <bit>
#include <cstdint>

namespace millrace::engine {

inline float half_to_float(std::uint16_t half) {
  const std::uint32_t sign = static_cast<std::uint32_t>(half & 0x8000u) << 16;
  const std::uint32_t exponent = (half >> 10) & 0x1fu;
  std::uint32_t fraction = half & 0x3ffu;
  if (exponent == 0x1f) return std::bit_cast<float>(sign | 0x7f800000u | (fraction << 13));
  if (exponent != 0)
    return std::bit_cast<float>(sign | ((exponent + 127 - 15) << 23) | (fraction << 13));
  if (fraction == 0) return std::bit_cast<float>(sign);
  // Subnormal: shift the leading one to the place of a float's hidden bit.
  const auto shift = static_cast<std::uint32_t>(std::countl_zero(fraction)) - 21;
  fraction = (fraction << shift) & 0x3ffu;
  return std::bit_cast<float>(sign | ((127 - 15 + 1 - shift) << 23) | (fraction << 13));
}

inline float bfloat16_to_float(std::uint16_t value) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(value) << 16);
}

// Magnitudes from 65520 on become infinite.
inline std::uint16_t float_to_half(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t sign = bits >> 16 & 0x8000u, magnitude = bits & 0x7fffffffu;
  const std::uint32_t exponent = magnitude >> 23;
  const auto half = [sign](std::uint32_t rest) { return static_cast<std::uint16_t>(sign | rest); };
  if (magnitude > 0x7f800000u) return half(0x7e00u);
  if (magnitude >= 0x477ff000u) return half(0x7c00u);
  if (exponent < 102) return half(0);  // below half of the least subnormal
  // A normal half keeps 10 bits of the fraction; a subnormal one loses a bit for each power of two.
  const bool normal = exponent >= 113;
  const std::uint32_t shift = normal ? 13 : 126 - exponent;
  const std::uint32_t from =
      normal ? magnitude - (112u << 23) : (magnitude & 0x7fffffu) | 0x800000u;
  const std::uint32_t odd = from >> shift & 1u;
  return half((from + (1u << (shift - 1)) - 1 + odd) >> shift);
}

inline std::uint16_t float_to_bfloat16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return static_cast<std::uint16_t>(bits >> 16 | 0x40u);
  return static_cast<std::uint16_t>((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
}

}  // namespace millrace::engine
