#pragma once
// Weight matrices from the file's row blocks to the panels of 16 rows that the kernels read
// (kernels/matmul/layout.cl). Thread safety: pure functions.
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "engine/core/gguf/file.hpp"
#include "engine/core/model/panel.hpp"

namespace millrace::engine {

// The first of `count` rows from `first` on whose values or scales are not all finite numbers: what
// no converter writes, and what the kernels need not agree on.
std::optional<std::uint64_t> find_row_not_finite(const Tensor& tensor, std::uint64_t first,
                                                 std::uint64_t count);

// Rows 16 * panel and on of a tensor whose shape[0] is layout.columns; `out` has panel_bytes.
void pack_panel(const PanelLayout& layout, const Tensor& tensor, std::uint32_t panel,
                std::span<std::byte> out);

}  // namespace millrace::engine
