#include "engine/core/families/portable_math.hpp"

#include <array>
#include <bit>
#include <cmath>
#include <cstdint>

namespace millrace::engine {
namespace {

constexpr double ln2 = 0x1.62e42fefa39efp-1, ln2_rest = 0x1.abc9e3b39803fp-56;
// pi / 2 as a sum, largest part first.
constexpr std::array<double, 3> quarter_turn = {0x1.921fb54442d18p+0, 0x1.1a62633145c07p-54,
                                                -0x1.f1976b7ed8fbcp-110};

}  // namespace

// With x = m 2^e and m near 1, log m is the series of
// 2 artanh((m - 1) / (m + 1)).
double log_of(double x) {
  const auto bits = std::bit_cast<std::uint64_t>(x);
  auto e = static_cast<int>(bits >> 52) - 1023;
  double m = std::bit_cast<double>((bits & ((1ull << 52) - 1)) | (1023ull << 52));
  if (m > 1.4142135623730951) {
    m *= 0.5;
    ++e;
  }
  const double f = (m - 1) / (m + 1), square = f * f;
  double series = 0;
  for (int k = 23; k >= 1; k -= 2) series = series * square + 1.0 / k;
  return std::fma(e, ln2, std::fma(e, ln2_rest, 2 * f * series));
}

double exp_of(double x) {
  const double n = std::floor(x / ln2 + 0.5);
  const double r = std::fma(-n, ln2_rest, std::fma(-n, ln2, x));
  double series = 1;
  for (int k = 14; k >= 1; --k) series = series * r / k + 1;
  const auto power = static_cast<std::uint64_t>(static_cast<std::int64_t>(n) + 1023);
  return series * std::bit_cast<double>(power << 52);
}

// Subtracts whole quarter turns, then uses Taylor's series.
Turn turn_by(double angle) {
  const double n = std::floor(angle / quarter_turn[0] + 0.5);
  double r = angle;
  for (const double part : quarter_turn) r = std::fma(-n, part, r);
  const double square = r * r;
  double cosine = 1, sine = 1;
  for (int k = 18; k >= 2; k -= 2) {
    cosine = 1 - cosine * square / (k * (k - 1));
    sine = 1 - sine * square / (k * (k + 1));
  }
  sine *= r;
  switch (static_cast<std::int64_t>(n) & 3) {
    case 0:
      return {cosine, sine};
    case 1:
      return {-sine, cosine};
    case 2:
      return {-cosine, -sine};
    default:
      return {sine, -cosine};
  }
}

}  // namespace millrace::engine
