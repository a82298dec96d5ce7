#include "engine/core/families/rotary.hpp"

#include <algorithm>
#include <cmath>

#include "engine/core/families/portable_math.hpp"

namespace millrace::engine {
namespace {

constexpr double two_pi = 0x1.921fb54442d18p+2;

// The indices of frequencies between which YaRN goes over from kept to stretched ones.
struct Range {
  double low = 0, high = 0;
};

Range range_of(const Yarn& yarn, std::uint32_t dim, double log_base) {
  // The index whose frequency turns `turns` times within the original context.
  const auto index = [&](double turns) {
    return dim * log_of(yarn.original_tokens / (turns * two_pi)) / (2 * log_base);
  };
  Range range{index(yarn.beta_fast), index(yarn.beta_slow)};
  if (yarn.rounds_range) range = {std::floor(range.low), std::ceil(range.high)};
  return {std::max(range.low, 0.0), std::min(range.high, dim - 1.0)};
}

// Returns what YaRN multiplies frequency i by.
double stretch(const Yarn& yarn, const Range& range, std::uint32_t i) {
  const double width = std::max(range.high - range.low, 0.001);
  const double kept = 1.0 - std::clamp((i - range.low) / width, 0.0, 1.0);
  return (1.0 - kept) / yarn.factor + kept;
}

std::vector<double> frequencies(const RopeSpec& rope) {
  const double log_base = log_of(rope.base);
  std::vector<double> out(rope.dim / 2);
  const Range range = rope.yarn ? range_of(*rope.yarn, rope.dim, log_base) : Range{};
  for (std::uint32_t i = 0; i < out.size(); ++i) {
    out[i] = exp_of(-2.0 * i / rope.dim * log_base) / rope.linear_factor;
    if (!rope.divisors.empty()) out[i] /= static_cast<double>(rope.divisors[i]);
    if (rope.yarn) out[i] *= stretch(*rope.yarn, range, i);
  }
  return out;
}

}  // namespace

std::vector<float> rope_table(const RopeSpec& rope, std::uint32_t positions) {
  const std::vector<double> frequency = frequencies(rope);
  std::vector<float> table(std::size_t{positions} * frequency.size() * 2);
  std::size_t at = 0;
  for (std::uint32_t position = 0; position < positions; ++position) {
    for (const double each : frequency) {
      const Turn turn = turn_by(position * each);
      table[at++] = static_cast<float>(turn.cosine * rope.amplitude);
      table[at++] = static_cast<float>(turn.sine * rope.amplitude);
    }
  }
  return table;
}

}  // namespace millrace::engine
