#pragma once
// A histogram of latencies. Thread safety: plain values.
#include <array>
#include <cstdint>

namespace millrace::broker {

// Counts latencies in four buckets for each power of two, so that a quantile is at most a quarter
// too high.
struct LatencyHistogram {
  std::array<std::uint64_t, 160> buckets{};
  std::uint64_t count = 0, sum_us = 0, max_us = 0;
  void add(std::uint64_t us);
  // How many values are less than `us`, which is a power of two.
  std::uint64_t below(std::uint64_t us) const;
  std::uint64_t quantile_us(double q) const;  // upper edge of the bucket that holds it
};

}  // namespace millrace::broker
