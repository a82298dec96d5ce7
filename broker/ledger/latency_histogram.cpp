#include "broker/ledger/latency_histogram.hpp"

#include <algorithm>
#include <bit>
#include <cstddef>

namespace millrace::broker {
namespace {

// Values below 4 have a bucket each; above, the two bits after the leading one select one of four
// buckets.
std::size_t bucket_of(std::uint64_t us) {
  if (us < 4) return us;
  const auto shift = static_cast<std::size_t>(std::bit_width(us)) - 3;
  return 4 * (shift + 1) + ((us >> shift) & 3);
}
std::uint64_t upper_edge(std::size_t bucket) {
  if (bucket < 4) return bucket;
  const std::size_t shift = bucket / 4 - 1;
  return ((std::uint64_t{4} + bucket % 4 + 1) << shift) - 1;
}

}  // namespace

void LatencyHistogram::add(std::uint64_t us) {
  ++buckets[std::min(bucket_of(us), buckets.size() - 1)];
  ++count;
  sum_us += us;
  max_us = std::max(max_us, us);
}

std::uint64_t LatencyHistogram::below(std::uint64_t us) const {
  std::uint64_t values = 0;
  for (std::size_t i = 0; i < std::min(bucket_of(us), buckets.size()); ++i) values += buckets[i];
  return values;
}

std::uint64_t LatencyHistogram::quantile_us(double q) const {
  const auto rank = static_cast<std::uint64_t>(q * static_cast<double>(count));
  std::uint64_t below = 0;
  for (std::size_t i = 0; i < buckets.size(); ++i) {
    below += buckets[i];
    if (below > rank) return std::min(upper_edge(i), max_us);
  }
  return max_us;
}

}  // namespace millrace::broker
