#pragma once
// How many rows one step of retention deletes. Short steps delay no commit; but where commits are
// slow there are few steps, so they grow while a pass takes longer than the pause between two.
// Thread safety: none.
#include <algorithm>
#include <cstdint>

#include "schemas/base/limits.hpp"

namespace millrace::broker {

class RetentionPace {
 public:
  explicit RetentionPace(std::int64_t pause_us) : pause_us_(pause_us) {}

  std::uint32_t rows() const { return rows_; }
  void pass_begins(std::int64_t now_us) { since_us_ = now_us; }
  void pass_goes_on(std::int64_t now_us) {
    if (now_us - since_us_ < pause_us_) return;
    since_us_ = now_us;
    rows_ = std::min(2 * rows_, limits::retention_rows_most);
  }
  void pass_ends(std::int64_t now_us) {
    if (now_us - since_us_ < pause_us_ / 2) rows_ = std::max(rows_ / 2, limits::retention_rows);
  }

 private:
  const std::int64_t pause_us_;
  std::int64_t since_us_ = 0;
  std::uint32_t rows_ = limits::retention_rows;
};

}  // namespace millrace::broker
