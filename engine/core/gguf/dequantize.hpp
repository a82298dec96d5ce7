#pragma once
// Packed tensor rows to fp32 on the host: the exact meaning of each type, as the reference for the
// device kernels and for loading small tensors. How blocks are laid out stands in quant_block.cpp.
// Thread safety: pure functions.
#include <cstddef>
#include <cstdint>
#include <span>

#include "engine/core/gguf/file.hpp"
#include "engine/core/gguf/tensor_type.hpp"
#include "schemas/base/error.hpp"

namespace millrace::engine {

// `packed` holds whole blocks of the type, `out` as many elements as they do.
// Errors: internal, when the sizes do not match.
Status dequantize(TensorType type, std::span<const std::byte> packed, std::span<float> out);

// Rows [first, first + count) of a tensor, a row being its innermost dimension; `out` holds
// count * shape[0]. Errors: internal, when the rows are not in the tensor or the sizes mismatch.
Status dequantize_rows(const Tensor& tensor, std::uint64_t first, std::uint64_t count,
                       std::span<float> out);

}  // namespace millrace::engine
