#pragma once
// Factors of matrix products: a tensor NAME.scale beside NAME.weight. Files in NVFP4 have them, as
// the second level of their scales, and some models for their experts. A product is multiplied by
// its factor, before a bias is added; packing multiplies the scales of the weights by it.
// Thread safety: pure functions.
#include <vector>

#include "engine/core/gguf/file.hpp"
#include "schemas/base/error.hpp"

namespace millrace::engine {

// Returns the factor of each matrix of `weight`, one by shape[2]; none if the file has no such
// tensor. A tensor of one factor gives it for all matrices. Errors: gguf_malformed, if it is not
// F32, has another number of factors, or one is not finite.
Result<std::vector<float>> product_scales(const GgufFile& file, const Tensor& weight);

}  // namespace millrace::engine
