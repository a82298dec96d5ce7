#pragma once
// Finds the scale of a group of values, and its minimum if it has one, that gives the least
// weighted squared error after rounding to codes:
//
//   error = sum of w[i] (x[i] - decoded[i])^2
//
// Each search starts from several scales, because rounding makes the error a function with many
// valleys. From each start it takes turns: it rounds to codes, and then solves for the scale that
// is best for these codes. All sums run in eight lanes that are added in a fixed order. Thread
// safety: pure functions.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <span>

#include "engine/core/gguf/quant_block.hpp"

namespace millrace::engine::fit {

// Sums f(0) to f(N - 1).
template <std::size_t N, class F>
inline float sum(F f) {
  constexpr std::size_t width = 8;
  std::array<float, width> lanes{};
  for (std::size_t i = 0; i < N; i += width)
    for (std::size_t j = 0; j < width; ++j) lanes[j] += f(i + j);
  return ((lanes[0] + lanes[1]) + (lanes[2] + lanes[3])) +
         ((lanes[4] + lanes[5]) + (lanes[6] + lanes[7]));
}

// Rounds to the nearest integer, ties to even, of at most 2^22: the sum has no room for a fraction.
inline float nearest(float value) {
  constexpr float shift = 12582912.0f;  // 1.5 * 2^23
  return (value + shift) - shift;
}

inline float clamped(float value, float low, float high) {
  const float above = value < low ? low : value;
  return above > high ? high : above;
}

inline float inverse(float value) {
  return value == 0 ? 0 : 1 / value;
}

// Values and their weights: the group's root mean square and the magnitude. So the values that
// matter most to a product lose least, and small ones are not given up for them.
template <std::size_t N>
struct Group {
  std::array<float, N> x, w;

  explicit Group(const float* values) {
    std::copy_n(values, N, x.begin());
    const float rms = std::sqrt(sum<N>([&](std::size_t i) { return x[i] * x[i]; }) / N);
    for (std::size_t i = 0; i < N; ++i) w[i] = rms + std::abs(x[i]);
  }
};

template <std::size_t N>
using Codes = std::array<float, N>;  // integers; floats so that the loops become vector code

// x = scale * code - minimum, for codes from 0 to `top` and a minimum that is not negative.
struct Affine {
  float scale = 0, minimum = 0;
};

template <std::size_t N>
inline void affine_codes(const Group<N>& group, Affine by, float top, Codes<N>& codes) {
  const float back = inverse(by.scale);
  for (std::size_t i = 0; i < N; ++i)
    codes[i] = nearest(clamped((group.x[i] + by.minimum) * back, 0, top));
}

template <std::size_t N>
inline float affine_error(const Group<N>& group, Affine by, const Codes<N>& codes) {
  return sum<N>([&](std::size_t i) {
    const float off = by.scale * codes[i] - by.minimum - group.x[i];
    return group.w[i] * off * off;
  });
}

// x = scale * code, for codes from `low` to `high`.
template <std::size_t N>
inline void linear_codes(const Group<N>& group, float scale, float low, float high,
                         Codes<N>& codes) {
  const float back = inverse(scale);
  for (std::size_t i = 0; i < N; ++i) codes[i] = nearest(clamped(group.x[i] * back, low, high));
}

template <std::size_t N>
inline float linear_error(const Group<N>& group, float scale, const Codes<N>& codes) {
  return sum<N>([&](std::size_t i) {
    const float off = scale * codes[i] - group.x[i];
    return group.w[i] * off * off;
  });
}

// x = scale * levels[code]. `values` become the levels of the codes, which are the nearest ones.
// Levels ascend.
template <std::size_t N>
inline void level_values(const Group<N>& group, float scale, const Levels& levels,
                         Codes<N>& values) {
  const float back = inverse(scale);
  values.fill(levels[0]);
  for (std::size_t k = 1; k < levels.size(); ++k) {
    const float gap = static_cast<float>(levels[k] - levels[k - 1]);
    const float middle = static_cast<float>(levels[k] + levels[k - 1]) / 2;
    for (std::size_t i = 0; i < N; ++i) values[i] += group.x[i] * back > middle ? gap : 0.0f;
  }
}

template <std::size_t N>
Affine best_affine(const Group<N>& group, int top);
template <std::size_t N>
float best_linear(const Group<N>& group, int low, int high);
template <std::size_t N>
float best_levels(const Group<N>& group, const Levels& levels);

}  // namespace millrace::engine::fit
