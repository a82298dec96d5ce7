#pragma once
// How long a step has been watched. A process that was stopped for a while, as by a pause of its
// container or of its job, did not wait for its device meanwhile, though the clock went on: between
// two looks at most two seconds count. The link looks at least once a second.
// Thread safety: none; the caller holds a lock.
#include <algorithm>
#include <cstdint>

namespace millrace::worker {

class StepWatch {
 public:
  // A look at `now_us` at the step that began at `began_us`, which names it. Gives for how many
  // microseconds it has been watched, the time before its first look included.
  std::int64_t look(std::int64_t began_us, std::int64_t now_us) {
    if (began_us != began_us_) {
      began_us_ = looked_us_ = began_us;
      watched_us_ = 0;
    }
    watched_us_ += std::min(now_us - looked_us_, longest_gap_us);
    looked_us_ = now_us;
    return watched_us_;
  }

 private:
  static constexpr std::int64_t longest_gap_us = 2'000'000;
  std::int64_t began_us_ = 0, looked_us_ = 0, watched_us_ = 0;
};

}  // namespace millrace::worker
