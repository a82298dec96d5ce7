#pragma once
// Converts packed tensor rows to fp32 on the host, exactly. It is the reference for the device
// kernels, and loads small tensors. unpack*.cpp and quant_block.cpp describe the bytes of blocks.
// Thread safety: pure functions.
#include <cstddef>
#include <cstdint>
#include <span>

#include "engine/core/gguf/file.hpp"
#include "engine/core/gguf/tensor_type.hpp"
#include "schemas/base/error.hpp"

namespace millrace::engine {

// Converts whole blocks of the type; `out` holds as many elements as they do.
// Errors: internal, when the sizes do not match.
Status dequantize(TensorType type, std::span<const std::byte> packed, std::span<float> out);

// Converts rows [first, first + count) of a tensor; a row is its innermost dimension. `out` holds
// count * shape[0] elements. Errors: internal, when the tensor lacks these rows or the sizes do not
// match.
Status dequantize_rows(const Tensor& tensor, std::uint64_t first, std::uint64_t count,
                       std::span<float> out);

}  // namespace millrace::engine
