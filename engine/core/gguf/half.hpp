#pragma once
// Converts IEEE half precision and bfloat16 to float, exactly. Only integer operations are used, so
// that the bits are the same on every machine. A NaN keeps its payload. Thread safety: pure
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

}  // namespace millrace::engine
