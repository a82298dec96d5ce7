#pragma once
// Keeps steps short by changing the token budget of a step, so that new and cancelled requests need
// not wait for a long step. Chunk sizes do not change the bits of a token. Thread safety: one
// owner.
#include <algorithm>
#include <cstdint>

namespace millrace::engine {

class StepPacer {
 public:
  // Keeps the budget between `least` and `most` tokens, so that steps take less than `target_us`.
  // The budget begins with `first`, which should be low, because the device's speed is not known
  // yet. Whatever the budget is, the scheduler plans all decoding rows
  // (Scheduler::set_step_tokens).
  StepPacer(std::uint32_t least, std::uint32_t first, std::uint32_t most, std::uint64_t target_us)
      : least_(std::min(least, most)),
        most_(most),
        target_us_(target_us),
        tokens_(std::min(most, first)) {}

  // The token budget of the next step.
  std::uint32_t tokens() const { return tokens_; }

  // Says that a step of `tokens` tokens took `us`. A step that took too long shrinks the budget at
  // once, in proportion. A short one lets it grow in proportion, at most to twice the budget, and
  // only if the step used three quarters of it: the time of decoding says nothing about prompts.
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
