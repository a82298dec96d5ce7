#pragma once
// Converts fp32 values to blocks of a tensor type: the inverse of dequantize (engine/core/gguf).
// F16 and BF16 are rounded to the nearest. Q8_0, Q4_0, Q4_1, Q5_0 and Q5_1 have one encoding that
// the whole ecosystem writes: the range of a block is cut into equal steps. The other types leave
// scales to the encoder, which searches for those with the least weighted squared error (fit.hpp).
// Thread safety: pure functions.
#include <cstddef>
#include <span>
#include <string>

#include "engine/core/gguf/tensor_type.hpp"
#include "schemas/base/error.hpp"

namespace millrace::engine {

// Whether there is an encoder for the type. There is none for the types with grids and for NVFP4.
bool can_encode(TensorType type);

// The largest magnitude that an encoder takes: what the type's scales can express, halves in most.
float largest_value(TensorType type);

// Writes the blocks of `values`, whole blocks of finite numbers up to largest_value. Errors:
// internal, if the sizes do not match or there is no encoder.
Status encode(TensorType type, std::span<const float> values, std::span<std::byte> out);

}  // namespace millrace::engine
