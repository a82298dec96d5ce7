#pragma once
// Rounds fp32 to half precision and to bfloat16, to the nearest and to even if two are as near, by
// integer steps, so that the bits are the same on every machine. Thread safety: pure functions.
#include <bit>
#include <cstdint>

namespace millrace::engine {

inline std::uint16_t float_to_half(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const auto sign = static_cast<std::uint16_t>(bits >> 16 & 0x8000u);
  const std::uint32_t magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return static_cast<std::uint16_t>(sign | 0x7e00u);
  if (magnitude >= 0x477ff000u) return static_cast<std::uint16_t>(sign | 0x7c00u);
  const std::uint32_t exponent = magnitude >> 23;
  // Subnormal halves are multiples of 2^-24.
  const bool normal = exponent >= 113;
  if (!normal && exponent < 102) return sign;
  const std::uint32_t fraction = (magnitude & 0x7fffffu) | 0x800000u;
  const std::uint32_t shift = normal ? 13 : 126 - exponent;
  const std::uint32_t kept = fraction >> shift, rest = fraction & ((1u << shift) - 1);
  const std::uint32_t middle = 1u << (shift - 1);
  const std::uint32_t up = rest > middle || (rest == middle && (kept & 1u) != 0) ? 1 : 0;
  // A carry out of the fraction raises the exponent, which is what rounding up means.
  const std::uint32_t begin = normal ? (exponent - 113) << 10 : 0;
  return static_cast<std::uint16_t>(sign | (begin + kept + up));
}

inline std::uint16_t float_to_bfloat16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return static_cast<std::uint16_t>(bits >> 16 | 0x40u);
  return static_cast<std::uint16_t>((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
}

}  // namespace millrace::engine
