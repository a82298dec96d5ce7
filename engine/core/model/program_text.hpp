#pragma once
// Small words of a program's specification. Thread safety: pure functions.
#include <cstdint>
#include <string>
#include <string_view>

#include "engine/core/device/device.hpp"

namespace millrace::engine {

inline std::string define(std::string_view name, std::uint64_t value) {
  return std::string(name) + "=" + std::to_string(value);
}

// "attention/" -> "attention/cpu.cl".
inline std::string variant_of(std::string_view operation, Family family) {
  return std::string(operation) + std::string(family_name(family)) + ".cl";
}

}  // namespace millrace::engine
