#pragma once
// A stretch of time. Thread safety: a plain value.
#include <algorithm>
#include <cstdint>

namespace millrace::client {

struct Stretch {  // Unix times; the end does not belong to it
  std::int64_t from_us = 0, to_us = 0;
  double seconds() const { return static_cast<double>(to_us - from_us) / 1e6; }
  // The part of the hour, minute or other unit of this length that lies in the stretch. The unit is
  // the one that `at_us` is in, a moment of the stretch.
  Stretch part_of_unit(std::int64_t at_us, std::int64_t unit_us) const {
    const std::int64_t begin_us = at_us / unit_us * unit_us;
    return {std::max(from_us, begin_us), std::min(to_us, begin_us + unit_us)};
  }
};

}  // namespace millrace::client
