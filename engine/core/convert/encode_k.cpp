// Super-blocks of 256 values: each group of 16 or 32 has a step for its scale and, in affine types,
// one for its minimum, in units of the block's two halves.
#include <cmath>
#include <vector>

#include "engine/core/convert/encoders.hpp"
#include "engine/core/convert/fit.hpp"
#include "engine/core/gguf/half.hpp"

namespace millrace::engine::encoders {
namespace {

using namespace fit;

template <std::size_t N>
std::vector<Group<N>> groups_of(const float* values) {
  std::vector<Group<N>> groups;
  groups.reserve(most_block_elements / N);
  for (std::size_t at = 0; at < most_block_elements; at += N) groups.emplace_back(values + at);
  return groups;
}

int step_of(float value, float unit, int low, int high) {
  return static_cast<int>(
      nearest(clamped(value * inverse(unit), static_cast<float>(low), static_cast<float>(high))));
}

// Stores codes with an offset.
template <std::size_t N>
void store(const Codes<N>& codes, int offset, std::uint8_t* to) {
  for (std::size_t i = 0; i < N; ++i)
    to[i] = static_cast<std::uint8_t>(static_cast<int>(codes[i]) + offset);
}

// The steps and codes of one group, and their error.
template <std::size_t N>
struct Coded {
  int scale = 0, minimum = 0;  // steps
  float error = 0;
  Codes<N> codes{};
};

// A block's halves are found in turns: from halves, the best steps and codes; from these, the
// halves that are best for them. The first turn's halves give the largest scale and the largest
// minimum the last step.
constexpr int block_turns = 3;

// Chooses a group's two steps: the nearest to the fitted scale and minimum, or a neighbour of these
// if the codes that go with it are closer to the values.
template <std::size_t N>
Coded<N> choose_steps(const Group<N>& group, Affine fitted, Affine unit, int top, int step_top) {
  const int scale = step_of(fitted.scale, unit.scale, 0, step_top);
  const int minimum = step_of(fitted.minimum, unit.minimum, 0, step_top);
  Coded<N> best{.error = -1}, tried;
  for (int s = std::max(0, scale - 1); s <= std::min(step_top, scale + 1); ++s) {
    for (int n = std::max(0, minimum - 1); n <= std::min(step_top, minimum + 1); ++n) {
      const Affine by{unit.scale * static_cast<float>(s), unit.minimum * static_cast<float>(n)};
      affine_codes(group, by, static_cast<float>(top), tried.codes);
      tried.error = affine_error(group, by, tried.codes);
      tried.scale = s;
      tried.minimum = n;
      if (best.error < 0 || tried.error < best.error) best = tried;
    }
  }
  return best;
}

// The halves that are best for these steps and codes, before they are rounded; zeros if any do.
template <std::size_t N>
Affine solve_units(const std::vector<Group<N>>& groups, const std::vector<Coded<N>>& coded) {
  double aa = 0, ab = 0, bb = 0, ax = 0, bx = 0;  // x = scale * a - minimum * b
  for (std::size_t g = 0; g < groups.size(); ++g) {
    const Group<N>& group = groups[g];
    const auto a = static_cast<float>(coded[g].scale), b = static_cast<float>(coded[g].minimum);
    const Codes<N>& codes = coded[g].codes;
    const auto weighted = [&](auto f) {
      return static_cast<double>(sum<N>([&](std::size_t i) { return group.w[i] * f(i); }));
    };
    aa += weighted([&](std::size_t i) { return a * a * codes[i] * codes[i]; });
    ab += weighted([&](std::size_t i) { return a * b * codes[i]; });
    bb += weighted([&](std::size_t) { return b * b; });
    ax += weighted([&](std::size_t i) { return a * codes[i] * group.x[i]; });
    bx += weighted([&](std::size_t i) { return b * group.x[i]; });
  }
  const double determinant = aa * bb - ab * ab;
  if (determinant > 0)
    return {static_cast<float>((ax * bb - ab * bx) / determinant),
            static_cast<float>((ab * ax - aa * bx) / determinant)};
  return {aa > 0 ? static_cast<float>(ax / aa) : 0, 0};
}

template <std::size_t N>
void affine_block(const float* values, int top, int step_top, CodedBlock& out) {
  const auto groups = groups_of<N>(values);
  std::vector<Affine> fitted;
  Affine unit;
  for (const Group<N>& group : groups) {
    fitted.push_back(best_affine(group, top));
    unit.scale = std::max(unit.scale, fitted.back().scale / static_cast<float>(step_top));
    unit.minimum = std::max(unit.minimum, fitted.back().minimum / static_cast<float>(step_top));
  }
  float best = -1;
  std::vector<Coded<N>> coded(groups.size());
  for (int turn = 0; turn < block_turns && unit.scale >= 0 && unit.minimum >= 0; ++turn) {
    const std::uint16_t halves[] = {float_to_half(unit.scale), float_to_half(unit.minimum)};
    unit = {half_to_float(halves[0]), half_to_float(halves[1])};
    float error = 0;
    for (std::size_t g = 0; g < groups.size(); ++g) {
      coded[g] = choose_steps(groups[g], fitted[g], unit, top, step_top);
      error += coded[g].error;
    }
    if (best >= 0 && error >= best) return;
    best = error;
    out.scale = halves[0];
    out.minimum = halves[1];
    for (std::size_t g = 0; g < groups.size(); ++g) {
      out.steps[g] = static_cast<std::int8_t>(coded[g].scale);
      out.minimum_steps[g] = static_cast<std::int8_t>(coded[g].minimum);
      store(coded[g].codes, 0, &out.codes[g * N]);
    }
    unit = solve_units(groups, coded);
  }
}

// As above, for groups without a minimum.
template <std::size_t N>
Coded<N> choose_step(const Group<N>& group, float fitted, float unit, int half, int step_half) {
  const int near = step_of(fitted, unit, -step_half, step_half - 1);
  Coded<N> best{.error = -1}, tried;
  for (int s = std::max(-step_half, near - 1); s <= std::min(step_half - 1, near + 1); ++s) {
    const float scale = unit * static_cast<float>(s);
    linear_codes(group, scale, static_cast<float>(-half), static_cast<float>(half - 1),
                 tried.codes);
    tried.error = linear_error(group, scale, tried.codes);
    tried.scale = s;
    if (best.error < 0 || tried.error < best.error) best = tried;
  }
  return best;
}

// Codes lie between -half and half - 1, steps between -step_half and step_half - 1. At first the
// largest scale has the lowest step.
void linear_block(const float* values, int half, int step_half, int offset, CodedBlock& out) {
  constexpr std::size_t size = 16;
  const auto groups = groups_of<size>(values);
  std::vector<float> fitted;
  float unit = 0;
  for (const Group<size>& group : groups) {
    fitted.push_back(best_linear(group, -half, half - 1));
    const float wanted = fitted.back() / static_cast<float>(-step_half);
    if (std::abs(wanted) > std::abs(unit)) unit = wanted;
  }
  float best = -1;
  std::vector<Coded<size>> coded(groups.size());
  for (int turn = 0; turn < block_turns; ++turn) {
    const std::uint16_t scale = float_to_half(unit);
    unit = half_to_float(scale);
    float error = 0;
    for (std::size_t g = 0; g < groups.size(); ++g) {
      coded[g] = choose_step(groups[g], fitted[g], unit, half, step_half);
      error += coded[g].error;
    }
    if (best >= 0 && error >= best) return;
    best = error;
    out.scale = scale;
    for (std::size_t g = 0; g < groups.size(); ++g) {
      out.steps[g] = static_cast<std::int8_t>(coded[g].scale);
      store(coded[g].codes, offset, &out.codes[g * size]);
    }
    unit = solve_units(groups, coded).scale;
  }
}

}  // namespace

void q2_k(const float* values, CodedBlock& out) {
  affine_block<16>(values, 3, 15, out);
}

void q3_k(const float* values, CodedBlock& out) {
  linear_block(values, 4, 32, 8, out);  // the engine's offset, see pack.cpp
}

void q4_k(const float* values, CodedBlock& out) {
  affine_block<32>(values, 15, 63, out);
}

void q5_k(const float* values, CodedBlock& out) {
  affine_block<32>(values, 31, 63, out);
}

void q6_k(const float* values, CodedBlock& out) {
  linear_block(values, 32, 128, 32, out);
}

}  // namespace millrace::engine::encoders
