#pragma once
// An argument of the kernels of products. Thread safety: a pure function.
#include <cstdint>

#include "engine/core/model/forms.hpp"
#include "kernels/matmul/mode.h"

namespace millrace::engine {

// The flags of kernels/matmul/mode.h.
inline std::uint32_t product_mode(Accumulate accumulate, const Buffer& bias) {
  return (accumulate == Accumulate::add ? MODE_ADDS : 0u) | (bias ? MODE_BIASED : 0u);
}

}  // namespace millrace::engine
