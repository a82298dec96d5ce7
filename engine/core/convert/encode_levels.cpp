// Blocks whose codes number levels: the table of IQ4_NL and IQ4_XS, and the 4-bit floats of MXFP4.
#include <cmath>
#include <vector>

#include "engine/core/convert/encoders.hpp"
#include "engine/core/convert/fit.hpp"
#include "engine/core/gguf/half.hpp"

namespace millrace::engine::encoders {
namespace {

using namespace fit;

constexpr std::size_t size = 32;  // of a group

const Levels& levels_of(TensorType type) {
  return *find_quant_traits(type)->levels;
}

// Stores the number of each level; levels ascend.
void store(const Codes<size>& values, const Levels& levels, std::uint8_t* to) {
  for (std::size_t i = 0; i < size; ++i) {
    const auto level = static_cast<std::int8_t>(values[i]);
    to[i] = static_cast<std::uint8_t>(std::lower_bound(levels.begin(), levels.end(), level) -
                                      levels.begin());
  }
}

// A 4-bit float has a sign and a magnitude of up to 12 halves. Codes 8 to 15 are negative.
std::uint8_t e2m1_code(float value, const Levels& levels) {
  std::uint8_t code = 0;
  const float magnitude = std::abs(value);
  while (code < 7 && magnitude > static_cast<float>(levels[code] + levels[code + 1u]) / 2) ++code;
  return value < 0 && code > 0 ? code + 8 : code;
}

}  // namespace

void iq4_nl(const float* values, CodedBlock& out) {
  const Levels& levels = levels_of(TensorType::iq4_nl);
  const Group<size> group(values);
  out.scale = float_to_half(best_levels(group, levels));
  Codes<size> best;
  level_values(group, half_to_float(out.scale), levels, best);
  store(best, levels, out.codes.data());
}

// Each group of 32 has a step from -32 to 31 in units of the block's half.
void iq4_xs(const float* values, CodedBlock& out) {
  constexpr int lowest = -32, highest = 31;
  const Levels& levels = levels_of(TensorType::iq4_xs);
  std::vector<Group<size>> groups;
  std::vector<float> fitted;
  float most = 0;
  for (std::size_t at = 0; at < most_block_elements; at += size) {
    groups.emplace_back(values + at);
    fitted.push_back(best_levels(groups.back(), levels));
    if (std::abs(fitted.back()) > std::abs(most)) most = fitted.back();
  }
  out.scale = float_to_half(most / static_cast<float>(lowest));
  const float unit = half_to_float(out.scale), back = inverse(unit);
  for (std::size_t g = 0; g < groups.size(); ++g) {
    const auto near = static_cast<int>(nearest(clamped(fitted[g] * back, lowest, highest)));
    float best = -1;
    Codes<size> tried;
    for (int s = std::max(lowest, near - 1); s <= std::min(highest, near + 1); ++s) {
      const float scale = unit * static_cast<float>(s);
      level_values(groups[g], scale, levels, tried);
      const float error = linear_error(groups[g], scale, tried);
      if (best >= 0 && error >= best) continue;
      best = error;
      out.steps[g] = static_cast<std::int8_t>(s);
      store(tried, levels, &out.codes[g * size]);
    }
  }
}

// The scale is a power of two: the one whose levels reach just beyond the largest value, or a
// neighbour of it if the levels are closer to the values.
void mxfp4(const float* values, CodedBlock& out) {
  constexpr int bias = 128, most_bits = 4;  // the largest level is 12, below 2^4
  const Levels& levels = levels_of(TensorType::mxfp4);
  float largest = 0;
  for (std::size_t i = 0; i < size; ++i) largest = std::max(largest, std::abs(values[i]));
  if (largest == 0) return;
  const int reach = std::ilogb(largest) + 1 - most_bits;
  float best = -1;
  for (int power = std::max(reach - 1, -bias); power <= reach + 1; ++power) {
    const float scale = std::ldexp(1.0f, power), back = std::ldexp(1.0f, -power);
    std::array<std::uint8_t, size> codes;
    for (std::size_t i = 0; i < size; ++i) codes[i] = e2m1_code(values[i] * back, levels);
    const float error = sum<size>([&](std::size_t i) {
      const float off = scale * static_cast<float>(levels[codes[i]]) - values[i];
      return off * off;
    });
    if (best >= 0 && error >= best) continue;
    best = error;
    out.exponent = static_cast<std::uint8_t>(power + bias);
    std::copy(codes.begin(), codes.end(), out.codes.begin());
  }
}

}  // namespace millrace::engine::encoders
