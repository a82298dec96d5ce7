#pragma once
// Helpers that write parts of a program's specification. Thread safety: pure functions.
#include <cstdint>
#include <cstdio>
#include <string>
#include <string_view>

#include "engine/core/device/device.hpp"

namespace millrace::engine {

inline std::string define(std::string_view name, std::uint64_t value) {
  return std::string(name) + "=" + std::to_string(value);
}

// A float as OpenCL C writes it: "5.000000000e+01f".
inline std::string float_text(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.9ef", value);  // NOLINT(cppcoreguidelines-pro-type-vararg)
  return text;
}

}  // namespace millrace::engine
