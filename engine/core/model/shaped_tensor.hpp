#pragma once
// Finds tensors whose shape and numbers are as a model's loading needs them. Errors:
// gguf_malformed, with the name of a tensor that is missing, has another shape or holds a number
// that is not finite; unsupported_tensor_type. Thread safety: pure functions.
#include <cstdint>
#include <string>
#include <vector>

#include "engine/core/gguf/file.hpp"
#include "schemas/base/error.hpp"

namespace millrace::engine {

// Finds `matrices` matrices of rows x columns; a vector is one matrix of one row. Their numbers are
// not checked: that is done where they are packed (weight_uploads.hpp).
Result<const Tensor*> find_shaped(const GgufFile& file, const std::string& name,
                                  std::uint64_t columns, std::uint64_t rows,
                                  std::uint64_t matrices = 1);

// Also checks that all numbers are finite.
Result<const Tensor*> find_finite(const GgufFile& file, const std::string& name,
                                  std::uint64_t columns, std::uint64_t rows);
// The error for a row that find_row_not_finite() found.
Error not_finite(const GgufFile& file, const Tensor& tensor, std::uint64_t row);

// Returns the factor of each matrix's products (gguf/product_scale.hpp), 1 where the file has none.
// Packing multiplies the scales by it, so it is refused for types without scales as float.
Result<std::vector<float>> packed_factors(const GgufFile& file, const Tensor& weight);

}  // namespace millrace::engine
