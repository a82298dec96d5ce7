#pragma once
// Forecasts how many tokens sequences draw from those that have ended: a running mean that weighs
// recent ones more. It decides how much room admission keeps free, and so how many sequences run
// and how often one is paused, but never a token. It uses only whole numbers, so that the same ends
// give the same plans on every machine. Thread safety: one owner thread.
#include <algorithm>
#include <cstdint>
#include <string>

namespace millrace::engine {

class LengthForecast {
 public:
  // `first` is the guess before any sequence has ended; it counts like the first few ends.
  explicit LengthForecast(std::uint32_t first) : mean_(first * one) {}

  // Records that a sequence has ended after `drawn` tokens.
  void ended(std::uint32_t drawn) {
    count_ = std::min(count_ + 1, most_counted);
    mean_ += (drawn * one - mean_) / count_;
  }
  std::uint32_t mean() const { return static_cast<std::uint32_t>((mean_ + one - 1) / one); }
  // Forecasts how many more tokens a sequence draws after `drawn`: the rest of the mean, but at
  // least a quarter of it, because a sequence beyond the mean is likely to be a long one.
  std::uint32_t ahead(std::uint32_t drawn) const {
    const std::uint32_t length = mean();
    return std::max(length - std::min(length, drawn), length / 4);
  }
  // The state as text, for dumps.
  std::string text() const { return std::to_string(mean_) + "/" + std::to_string(count_); }

 private:
  static constexpr std::int64_t one = 256;  // fixed point: one token
  static constexpr std::int64_t most_counted = 64;
  std::int64_t mean_;
  std::int64_t count_ = 4;
};

}  // namespace millrace::engine
