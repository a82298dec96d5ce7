#pragma once
// Counts durations so finely that any percentile is known to within a hundredth of its value, in
// memory that does not grow with their number. Thread safety: plain values.
#include <algorithm>
#include <bit>
#include <cstdint>
#include <map>

#include "schemas/base/percentile_rank.hpp"

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
  // The percentile of this share (schemas/base/percentile_rank.hpp); 0 without values.
  std::uint64_t at(double share) const {
    if (count_ == 0) return 0;
    const std::uint64_t wanted = percentile_rank(share, count_);
    std::uint64_t seen = 0;
    for (const auto& [step, count] : counts_) {
      seen += count;
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
