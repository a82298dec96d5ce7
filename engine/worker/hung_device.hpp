#pragma once
// The error of a device that does not end a step. Thread safety: a pure function.
#include <cstdint>
#include <string>

#include "schemas/base/error.hpp"

namespace millrace::worker {

inline Error hung_device(std::uint32_t limit_s) {
  return {Code::device_error,
          "the device has not ended a step for " + std::to_string(limit_s) + " s",
          "if this happens again after a restart, try another --device or a smaller --step-tokens; "
          "for a very slow device, raise --step-limit"};
}

}  // namespace millrace::worker
