// Blocks of 32 values whose range is cut into equal steps. The codes come from the step before it
// is rounded to a half, as in every program that writes these types, so that files are equal.
#include <algorithm>
#include <cmath>

#include "engine/core/convert/encoders.hpp"
#include "engine/core/convert/fit.hpp"
#include "engine/core/gguf/half.hpp"

namespace millrace::engine::encoders {
namespace {

constexpr std::size_t block_values = 32;

// The first value of the largest magnitude has the lowest code, so that the one code more below
// zero than above it is used.
void symmetric(const float* values, int half, int top, CodedBlock& out) {
  float largest = 0;
  for (std::size_t i = 0; i < block_values; ++i)
    if (std::abs(values[i]) > std::abs(largest)) largest = values[i];
  const float d = largest / static_cast<float>(-half), back = fit::inverse(d);
  const float middle = static_cast<float>(half) + 0.5f;  // truncation then rounds
  out.scale = float_to_half(d);
  for (std::size_t i = 0; i < block_values; ++i) {
    const auto code = static_cast<int>(values[i] * back + middle);
    out.codes[i] = static_cast<std::uint8_t>(std::min(top, code));
  }
}

// The least value has the code 0, the largest `top`.
void affine(const float* values, int top, CodedBlock& out) {
  const auto [least, most] = std::minmax_element(values, values + block_values);
  const float minimum = *least, d = (*most - minimum) / static_cast<float>(top);
  const float back = fit::inverse(d);
  out.scale = float_to_half(d);
  out.minimum = float_to_half(minimum);
  for (std::size_t i = 0; i < block_values; ++i) {
    const auto code = static_cast<int>(std::floor((values[i] - minimum) * back + 0.5f));
    out.codes[i] = static_cast<std::uint8_t>(std::min(top, code));
  }
}

}  // namespace

void q8_0(const float* values, CodedBlock& out) {
  float largest = 0;
  for (std::size_t i = 0; i < block_values; ++i) largest = std::max(largest, std::abs(values[i]));
  const float d = largest / 127, back = fit::inverse(d);
  out.scale = float_to_half(d);
  for (std::size_t i = 0; i < block_values; ++i) {
    const auto code = static_cast<int>(std::round(values[i] * back));
    out.codes[i] = static_cast<std::uint8_t>(code + 128);
  }
}

void q4_0(const float* values, CodedBlock& out) {
  symmetric(values, 8, 15, out);
}

void q5_0(const float* values, CodedBlock& out) {
  symmetric(values, 16, 31, out);
}

void q4_1(const float* values, CodedBlock& out) {
  affine(values, 15, out);
}

void q5_1(const float* values, CodedBlock& out) {
  affine(values, 31, out);
}

}  // namespace millrace::engine::encoders
