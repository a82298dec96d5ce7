#pragma once
// Keeps steps short by changing how many tokens one may hold, so that cancels and newcomers wait no
// longer than that. Chunk sizes change no bits, so neither does this. Thread safety: one owner.
#include <algorithm>
#include <cstdint>

namespace millrace::engine {

class StepPacer {
 public:
  // Between `least` and `most` tokens; steps aim to stay under `target_us`. Begins low, for nothing
  // is known about the device yet.
  StepPacer(std::uint32_t least, std::uint32_t most, std::uint64_t target_us)
      : least_(std::min(least, most)),
        most_(most),
        target_us_(target_us),
        tokens_(std::min(most, least_ + 64)) {}

  std::uint32_t tokens() const { return tokens_; }

  // A step of `tokens` tokens took `us`. Shrinks in proportion at once. Grows in proportion, to
  // twice as many at most, and only after a step that had about as many as it might: how long
  // decoding takes tells nothing about prompts.
  void took(std::uint32_t tokens, std::uint64_t us) {
    const std::uint64_t spare_us = target_us_ * 9 / 10;
    if (us > target_us_) {
      const std::uint64_t fits = std::uint64_t{tokens} * target_us_ / us;
      tokens_ = std::clamp(static_cast<std::uint32_t>(fits), least_, std::max(least_, tokens_));
    } else if (us < spare_us && std::uint64_t{tokens} * 4 >= std::uint64_t{tokens_} * 3) {
      const std::uint64_t fits = std::uint64_t{tokens} * spare_us / std::max<std::uint64_t>(us, 1);
      const std::uint64_t most = std::min<std::uint64_t>(most_, std::uint64_t{tokens_} * 2);
      tokens_ = static_cast<std::uint32_t>(std::clamp<std::uint64_t>(fits, tokens_, most));
    }
  }

 private:
  std::uint32_t least_, most_;
  std::uint64_t target_us_;
  std::uint32_t tokens_;
};

}  // namespace millrace::engine
