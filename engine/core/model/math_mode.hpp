#pragma once
// How a model's arithmetic is done; part of the numeric fingerprint.
#include <cstdint>

namespace millrace::engine {

enum class MathMode : std::uint8_t {
  exact  // fp32 activations; `fast` (integer products) comes later
};

}  // namespace millrace::engine
