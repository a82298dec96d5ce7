#pragma once
// A line on a terminal that tells how far a command is, drawn at most five times a second. Where
// standard error is no terminal, and with --json, nothing is drawn. Thread safety: none.
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <string>
#include <utility>

#include "schemas/base/clock.hpp"

namespace millrace::client {

class ProgressLine {
 public:
  explicit ProgressLine(bool json) : shows_(!json && ::isatty(STDERR_FILENO) != 0) {}
  ~ProgressLine() { clear(); }
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;

  // `text` makes the line; it is called only if the line is drawn.
  template <class Text>
  void show(const Text& text) {
    const std::int64_t now_us = clock_.monotonic_us();
    if (!shows_ || now_us - shown_us_ < pause_us) return;
    shown_us_ = now_us;
    drawn_ = true;
    std::fprintf(stderr, "\r\x1b[K%s", std::string(text()).c_str());
    std::fflush(stderr);
  }
  // Call it before anything else is printed.
  void clear() {
    if (std::exchange(drawn_, false)) std::fputs("\r\x1b[K", stderr);
  }

 private:
  static constexpr std::int64_t pause_us = 200'000;
  const SystemClock clock_;
  const bool shows_;
  std::int64_t shown_us_ = 0;
  bool drawn_ = false;
};

}  // namespace millrace::client
