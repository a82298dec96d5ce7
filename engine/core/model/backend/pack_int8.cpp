#include "engine/core/model/backend/pack_int8.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <vector>

#include "engine/core/gguf/dequantize.hpp"
#include "kernels/matmul/int8_panel.h"

namespace millrace::engine {
namespace {

constexpr std::size_t vector_codes = 16;
constexpr std::size_t group_vectors = INT8_GROUP / vector_codes;

// Loops over a group have a constant number of turns, so that the compiler makes vectors of them.

// Numbers that are four and more apart.
template <std::size_t Distance>
void add_at(float* group) {
  for (std::size_t first = 0; first < INT8_GROUP; first += 2 * Distance) {
    for (std::size_t i = first; i < first + Distance; ++i) {
      const float a = group[i], b = group[i + Distance];
      group[i] = a + b;
      group[i + Distance] = a - b;
    }
  }
}

// Those that are one and two apart, four numbers at a time.
void add_within_fours(float* group) {
  for (std::size_t i = 0; i < INT8_GROUP; i += 4) {
    float* const v = group + i;
    const float a = v[0] + v[1], b = v[0] - v[1], c = v[2] + v[3], d = v[2] - v[3];
    v[0] = a + c;
    v[1] = b + d;
    v[2] = a - c;
    v[3] = b - d;
  }
}

// The magnitudes of numbers as integers are ordered like the numbers.
std::int32_t largest_of(const float* group) {
  std::int32_t largest = 0;
  for (std::size_t i = 0; i < INT8_GROUP; ++i) {
    largest = std::max(largest, std::bit_cast<std::int32_t>(group[i]) & 0x7fffffff);
  }
  return largest;
}

void round_group(const float* group, float inverse, std::int8_t* codes) {
  // Adding it leaves the nearest integer in the low bits.
  constexpr float magic = 12582912.0f;
  for (std::size_t i = 0; i < INT8_GROUP; ++i) {
    codes[i] = static_cast<std::int8_t>(std::bit_cast<std::int32_t>(group[i] * inverse + magic));
  }
}

}  // namespace

void rotate_groups(std::span<float> values) {
  for (std::size_t at = 0; at < values.size(); at += INT8_GROUP) {
    float* const group = &values[at];
    add_within_fours(group);
    add_at<4>(group);
    add_at<8>(group);
    add_at<16>(group);
    add_at<32>(group);
    add_at<64>(group);
  }
}

float int8_row(std::span<const float> rotated, std::int8_t* codes) {
  constexpr float least = 0x1p-100f, largest_code = 127.0f;
  std::int32_t bits = 0;  // NaN is above all, so that the scale of its row is NaN
  for (std::size_t at = 0; at < rotated.size(); at += INT8_GROUP) {
    bits = std::max(bits, largest_of(&rotated[at]));
  }
  const float largest = std::bit_cast<float>(bits);
  if (largest < least) {
    std::fill_n(codes, rotated.size(), std::int8_t{0});
    return 0.0f;
  }
  const float inverse = largest_code / largest;
  for (std::size_t at = 0; at < rotated.size(); at += INT8_GROUP) {
    round_group(&rotated[at], inverse, codes + at);
  }
  return largest / largest_code / INT8_GROUP;
}

void pack_int8_rows(const PanelRows& from, std::uint32_t columns, std::uint32_t first_lane,
                    std::span<std::byte> out) {
  const std::size_t groups = INT8_GROUPS(columns), padded = groups * INT8_GROUP;
  std::vector<float> values(padded);
  std::vector<std::int8_t> codes(padded);
  for (std::uint32_t i = 0; i < from.rows; ++i) {
    const std::size_t lane = first_lane + i;
    std::fill(values.begin() + columns, values.end(), 0.0f);
    // A tensor that was loaded has whole rows, so this cannot fail.
    (void)dequantize_rows(from.tensor, from.first_row + i, 1, std::span(values).first(columns));
    if (from.factor != 1.0f) {
      for (float& value : values) value *= from.factor;
    }
    rotate_groups(values);
    const float scale = int8_row(values, codes.data());
    for (std::size_t v = 0; v < padded / vector_codes; ++v) {
      const std::size_t place = v % group_vectors ^ lane % group_vectors;
      std::memcpy(out.data() + v / group_vectors * INT8_STEP_BYTES + lane * INT8_GROUP +
                      place * vector_codes,
                  &codes[v * vector_codes], vector_codes);
    }
    std::memcpy(out.data() + INT8_SCALES_AT(groups) + lane * sizeof scale, &scale, sizeof scale);
  }
}

}  // namespace millrace::engine
