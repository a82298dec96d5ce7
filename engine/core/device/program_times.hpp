#pragma once
// What building programs took. Thread safety: plain values.
#include <cstdint>

namespace millrace::engine {

struct ProgramTimes {
  std::uint32_t compiled = 0, cached = 0;  // programs that were given; cached ones as binaries
  std::uint32_t by_helpers = 0;            // of those compiled
  double seconds = 0;                      // that their callers waited
};

}  // namespace millrace::engine
