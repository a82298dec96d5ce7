#pragma once
// Counts values between given bounds, for metrics. Thread safety: plain values.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace millrace {

class Histogram {
 public:
  Histogram() = default;
  // `bounds` ascend; the array must outlive the histogram. A value that equals a bound counts below
  // it.
  explicit Histogram(std::span<const double> bounds)
      : bounds_(bounds), counts_(bounds.size() + 1) {}

  void add(double value, std::uint64_t times = 1) {
    if (counts_.empty()) return;
    const auto at = std::ranges::lower_bound(bounds_, value) - bounds_.begin();
    counts_[static_cast<std::size_t>(at)] += times;
    count_ += times;
    sum_ += value * static_cast<double>(times);
  }
  // The values that came after `earlier`, a copy of this histogram of that time, was made.
  Histogram since(const Histogram& earlier) const {
    Histogram out = *this;
    for (std::size_t i = 0; i < earlier.counts_.size(); ++i) out.counts_[i] -= earlier.counts_[i];
    out.count_ -= earlier.count_;
    out.sum_ -= earlier.sum_;
    return out;
  }
  std::span<const double> bounds() const { return bounds_; }
  // How many values lie up to each bound and above the one before; the last entry has no bound.
  const std::vector<std::uint64_t>& counts() const { return counts_; }
  std::uint64_t count() const { return count_; }
  double sum() const { return sum_; }

 private:
  std::span<const double> bounds_;
  std::vector<std::uint64_t> counts_;
  std::uint64_t count_ = 0;
  double sum_ = 0;
};

}  // namespace millrace
