#pragma once
// An argument of the kernels of products. Thread safety: a pure function.
#include <cstdint>

#include "engine/core/model/forms.hpp"

namespace millrace::engine {

// The flags `mode` of kernels/matmul: 1 adds to the output, 2 adds the bias.
inline std::uint32_t product_mode(Accumulate accumulate, const Buffer& bias) {
  return (accumulate == Accumulate::add ? 1u : 0u) | (bias ? 2u : 0u);
}

}  // namespace millrace::engine
