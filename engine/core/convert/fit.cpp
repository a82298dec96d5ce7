#include "engine/core/convert/fit.hpp"

namespace millrace::engine::fit {
namespace {

constexpr int turns = 2;  // of rounding and solving, from each start

template <std::size_t N>
float largest_magnitude(const Group<N>& group) {
  float largest = 0;
  for (const float x : group.x)
    if (std::abs(x) > std::abs(largest)) largest = x;
  return largest;
}

// The scale and minimum that are best for these codes: the normal equations of two unknowns. A
// minimum below zero cannot be stored; then the line passes through zero.
template <std::size_t N>
Affine solve_affine(const Group<N>& group, const Codes<N>& codes) {
  const auto weighted = [&](auto f) {
    return sum<N>([&](std::size_t i) { return group.w[i] * f(i); });
  };
  const float w = weighted([](std::size_t) { return 1.0f; });
  const float wx = weighted([&](std::size_t i) { return group.x[i]; });
  const float wc = weighted([&](std::size_t i) { return codes[i]; });
  const float wcc = weighted([&](std::size_t i) { return codes[i] * codes[i]; });
  const float wcx = weighted([&](std::size_t i) { return codes[i] * group.x[i]; });
  const float determinant = w * wcc - wc * wc;
  if (determinant > 0) {
    const Affine line{(w * wcx - wc * wx) / determinant, (wc * wcx - wcc * wx) / determinant};
    if (line.minimum >= 0 && line.scale > 0) return line;
  }
  return {wcc > 0 ? std::max(0.0f, wcx / wcc) : 0, 0};
}

// Codes that are all above zero say the same with a smaller minimum, which costs a block of several
// groups less: their minimums share a unit.
template <std::size_t N>
Affine with_least_minimum(const Group<N>& group, Affine line, float top) {
  if (!(line.scale > 0)) return line;
  Codes<N> codes;
  affine_codes(group, line, top, codes);
  const float least = *std::ranges::min_element(codes);
  const float spare = std::min(least, std::floor(line.minimum / line.scale));
  return {line.scale, std::max(0.0f, line.minimum - spare * line.scale)};
}

// How good the best scale for these codes or levels is, and the scale.
struct Linear {
  float gain = 0;  // by how much the error falls from that of zeros
  float scale = 0;
};

template <std::size_t N>
Linear solve_linear(const Group<N>& group, const Codes<N>& codes) {
  const float wcx = sum<N>([&](std::size_t i) { return group.w[i] * codes[i] * group.x[i]; });
  const float wcc = sum<N>([&](std::size_t i) { return group.w[i] * codes[i] * codes[i]; });
  if (!(wcc > 0)) return {};
  return {wcx / wcc * wcx, wcx / wcc};
}

// Takes turns from the scale and keeps the best.
template <std::size_t N, class Round>
void improve(const Group<N>& group, float scale, Round round, Linear& best) {
  Codes<N> codes;
  for (int turn = 0; turn < turns && scale != 0; ++turn) {
    round(scale, codes);
    const Linear solved = solve_linear(group, codes);
    if (solved.gain > best.gain) best = solved;
    scale = solved.scale;
  }
}

}  // namespace

// Starts from ranges that reach beyond the values or stop before the largest.
template <std::size_t N>
Affine best_affine(const Group<N>& group, int top) {
  constexpr int starts = 12;
  constexpr float first = -0.9f, between = 0.15f;  // of a code
  const auto [least, most] = std::minmax_element(group.x.begin(), group.x.end());
  const float bottom = std::min(0.0f, *least), range = *most - bottom;
  if (!(range > 0)) return {0, -bottom};
  const auto codes_top = static_cast<float>(top);
  Codes<N> codes;
  Affine best;
  float best_error = -1;
  for (int start = 0; start < starts; ++start) {
    const float reach = codes_top + first + between * static_cast<float>(start);
    Affine line{range / reach, -bottom};
    for (int turn = 0; turn < turns && line.scale > 0; ++turn) {
      affine_codes(group, line, codes_top, codes);
      line = solve_affine(group, codes);
      const float error = affine_error(group, line, codes);
      if (best_error < 0 || error < best_error) {
        best_error = error;
        best = line;
      }
    }
  }
  return with_least_minimum(group, best, codes_top);
}

// Starts from scales of both signs: the range of codes has one more below zero than above it, which
// the largest value may take.
template <std::size_t N>
float best_linear(const Group<N>& group, int low, int high) {
  constexpr int starts = 7;
  constexpr float first = -0.9f, between = 0.3f;
  const float largest = largest_magnitude(group);
  const auto round = [&](float scale, Codes<N>& codes) {
    linear_codes(group, scale, static_cast<float>(low), static_cast<float>(high), codes);
  };
  Linear best;
  for (int start = 0; start < starts; ++start) {
    const float more = first + between * static_cast<float>(start);
    improve(group, largest / (static_cast<float>(low) - more), round, best);
    improve(group, largest / (static_cast<float>(high) + more), round, best);
  }
  return best.scale;
}

template <std::size_t N>
float best_levels(const Group<N>& group, const Levels& levels) {
  constexpr int starts = 9;
  constexpr float first = -16, between = 4;
  const float largest = largest_magnitude(group);
  const auto round = [&](float scale, Codes<N>& values) {
    level_values(group, scale, levels, values);
  };
  Linear best;
  for (int start = 0; start < starts; ++start) {
    const float more = first + between * static_cast<float>(start);
    improve(group, largest / (static_cast<float>(levels.front()) - more), round, best);
    improve(group, largest / (static_cast<float>(levels.back()) + more), round, best);
  }
  return best.scale;
}

template Affine best_affine(const Group<16>& group, int top);
template Affine best_affine(const Group<32>& group, int top);
template float best_linear(const Group<16>& group, int low, int high);
template float best_levels(const Group<32>& group, const Levels& levels);

}  // namespace millrace::engine::fit
