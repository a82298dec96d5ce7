#pragma once
// How many tokens sequences are likely to draw, learned from those that have ended: a running mean,
// of the last ones more than of the first. It decides how much room admission keeps free, so how
// many run and how often one is paused, and never a token. Whole numbers alone, so that the same
// ends give the same plans everywhere. Thread safety: one owner thread.
#include <algorithm>
#include <cstdint>
#include <string>

namespace millrace::engine {

class LengthForecast {
 public:
  // `first` is the guess while nothing is known; it counts like the first few ends.
  explicit LengthForecast(std::uint32_t first) : mean_(first * one) {}

  // A sequence has ended after so many tokens.
  void ended(std::uint32_t drawn) {
    count_ = std::min(count_ + 1, most_counted);
    mean_ += (drawn * one - mean_) / count_;
  }
  std::uint32_t mean() const { return static_cast<std::uint32_t>((mean_ + one - 1) / one); }
  // Tokens that a sequence will still draw after `drawn`: what it lacks of the mean. One that
  // draws on beyond that is likely to be of a longer kind.
  std::uint32_t ahead(std::uint32_t drawn) const {
    const std::uint32_t length = mean();
    return std::max(length - std::min(length, drawn), length / 4);
  }
  // All that it has learned, for dumps.
  std::string text() const { return std::to_string(mean_) + "/" + std::to_string(count_); }

 private:
  static constexpr std::int64_t one = 256;  // a token
  static constexpr std::int64_t most_counted = 64;
  std::int64_t mean_;
  std::int64_t count_ = 4;
};

}  // namespace millrace::engine
