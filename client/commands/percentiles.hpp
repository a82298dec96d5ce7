#pragma once
// Counts durations so finely that any percentile is known to within a hundredth of its value, in
// memory that does not grow with their number. Thread safety: plain values.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <map>

namespace millrace::client {

class Percentiles {
 public:
  void add(std::uint64_t us) {
    ++counts_[step_of(us)];
    ++count_;
    least_ = count_ == 1 ? us : std::min(least_, us);
    most_ = std::max(most_, us);
    sum_ += static_cast<double>(us);
  }
  std::uint64_t count() const { return count_; }
  std::uint64_t most() const { return most_; }
  double mean() const { return count_ == 0 ? 0 : sum_ / static_cast<double>(count_); }
  // The smallest value that at least this share of the values does not exceed; 0 without values.
  std::uint64_t at(double share) const {
    // A product such as 0.07 * 100 may lie a little above the whole number that it is.
    const double wanted = std::ceil(share * static_cast<double>(count_) - 1e-6);
    double seen = 0;
    for (const auto& [step, count] : counts_) {
      seen += static_cast<double>(count);
      if (seen >= wanted) return std::clamp(value_of(step), least_, most_);
    }
    return most_;
  }

 private:
  // A value is counted by its highest bits, so many after the first.
  static constexpr int bits = 7;
  static std::uint32_t step_of(std::uint64_t value) {
    const int shift = std::max(0, static_cast<int>(std::bit_width(value)) - bits - 1);
    return (static_cast<std::uint32_t>(shift) << bits) + static_cast<std::uint32_t>(value >> shift);
  }
  // The middle of the values of a step.
  static std::uint64_t value_of(std::uint32_t step) {
    const std::uint32_t shift = step < (2u << bits) ? 0 : (step >> bits) - 1;
    const std::uint64_t high = step - (shift << bits);
    return (high << shift) + ((std::uint64_t{1} << shift) >> 1);
  }

  std::map<std::uint32_t, std::uint64_t> counts_;  // by step
  std::uint64_t count_ = 0, least_ = 0, most_ = 0;
  double sum_ = 0;
};

}  // namespace millrace::client
