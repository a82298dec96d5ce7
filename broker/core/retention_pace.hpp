#pragma once
// How many rows one step of retention deletes, and how long the pause between two passes is. Short
// steps delay no commit; but where commits are slow there are few steps, so they grow by half while
// a pass takes longer than the pause. A pass that looks at many streams and finds little to delete
// is followed by a pause nine times as long as itself: it takes a tenth of the time at most.
// Thread safety: none.
#include <algorithm>
#include <cstdint>

#include "schemas/base/limits.hpp"

namespace millrace::broker {

class RetentionPace {
 public:
  explicit RetentionPace(std::int64_t pause_us) : pause_us_(pause_us) {}

  std::uint32_t rows() const { return rows_; }
  std::int64_t next_us() const { return next_us_; }  // when the next pass begins
  void pass_begins(std::int64_t now_us) {
    began_us_ = since_us_ = now_us;
    next_us_ = now_us + pause_us_;
    steps_ = deleted_ = 0;
  }
  void step_ends(std::uint64_t deleted) {
    ++steps_;
    deleted_ += deleted;
  }
  void pass_goes_on(std::int64_t now_us) {
    if (now_us - since_us_ < pause_us_) return;
    since_us_ = now_us;
    rows_ = std::min(rows_ + rows_ / 2, limits::retention_rows_most);
  }
  void pass_ends(std::int64_t now_us) {
    if (now_us - since_us_ < pause_us_ / 2) {
      rows_ = std::max(rows_ * 2 / 3, limits::retention_rows);
    }
    if (deleted_ < steps_) next_us_ = std::max(next_us_, now_us + 9 * (now_us - began_us_));
  }

 private:
  const std::int64_t pause_us_;
  std::int64_t began_us_ = 0, since_us_ = 0, next_us_ = 0;
  std::uint64_t steps_ = 0, deleted_ = 0;
  std::uint32_t rows_ = limits::retention_rows;
};

}  // namespace millrace::broker
