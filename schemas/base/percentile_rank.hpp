#pragma once
// The rule by which every percentile is chosen. Thread safety: a pure function.
#include <algorithm>
#include <cmath>
#include <cstdint>

namespace millrace {

// The percentile of a share is the smallest value that at least this share of the values does not
// exceed. This is its place among `count` values in order, from 1 to `count`; at least one is
// needed.
inline std::uint64_t percentile_rank(double share, std::uint64_t count) {
  // A product such as 0.07 * 100 may lie a little above the whole number that it is.
  const double wanted = std::ceil(share * static_cast<double>(count) - 1e-6);
  return std::clamp<std::uint64_t>(static_cast<std::uint64_t>(std::max(wanted, 1.0)), 1, count);
}

}  // namespace millrace
