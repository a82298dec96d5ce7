#pragma once
// Finds numbers of a tensor that are not finite. Thread safety: a pure function.
#include <cstdint>
#include <optional>

#include "engine/core/gguf/file.hpp"

namespace millrace::engine {

// Finds the first of `count` rows from `first` on whose values or scales are not all finite. No
// converter writes such numbers, and kernels may compute different results from them.
std::optional<std::uint64_t> find_row_not_finite(const Tensor& tensor, std::uint64_t first,
                                                 std::uint64_t count);

}  // namespace millrace::engine
