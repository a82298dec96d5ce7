#pragma once
// Time behind an interface, so that tests of code that waits need not wait. Monotonic time measures
// durations and never jumps; wall time is Unix time and may jump.
// Thread safety: any thread may use a clock.
#include <atomic>
#include <chrono>
#include <cstdint>

namespace millrace {

inline constexpr std::int64_t us_per_ms = 1'000;

class Clock {
 public:
  virtual ~Clock() = default;
  virtual std::int64_t monotonic_us() const = 0;
  virtual std::int64_t wall_us() const = 0;  // since 1970-01-01 UTC
};

class SystemClock final : public Clock {
 public:
  std::int64_t monotonic_us() const override {
    return microseconds(std::chrono::steady_clock::now().time_since_epoch());
  }
  std::int64_t wall_us() const override {
    return microseconds(std::chrono::system_clock::now().time_since_epoch());
  }

 private:
  template <class Duration>
  static std::int64_t microseconds(Duration d) {
    return std::chrono::duration_cast<std::chrono::microseconds>(d).count();
  }
};

// A clock that moves only when it is told to.
class ManualClock final : public Clock {
 public:
  explicit ManualClock(std::int64_t wall_us = 1'700'000'000'000'000) : wall_us_(wall_us) {}
  std::int64_t monotonic_us() const override { return monotonic_us_; }
  std::int64_t wall_us() const override { return wall_us_; }
  void advance_us(std::int64_t us) {
    monotonic_us_ += us;
    wall_us_ += us;
  }
  void set_wall_us(std::int64_t us) { wall_us_ = us; }  // as if someone set the machine's clock

 private:
  std::atomic<std::int64_t> monotonic_us_{1'000'000};
  std::atomic<std::int64_t> wall_us_;
};

}  // namespace millrace
