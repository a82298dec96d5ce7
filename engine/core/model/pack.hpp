#pragma once
// Weight matrices from the file's row blocks to the panels of 16 rows that the kernels read
// (kernels/matmul/layout.cl). Thread safety: pure functions.
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "engine/core/gguf/file.hpp"

namespace millrace::engine {

inline constexpr std::uint32_t panel_rows = 16;

constexpr std::uint32_t round_up(std::uint32_t value, std::uint32_t unit) {
  return (value + unit - 1) / unit * unit;
}

// `columns` is the true number; the kernels' K is it rounded up to 32.
struct PanelLayout {
  TensorType type = TensorType::f32;
  std::uint32_t columns = 0;

  std::uint32_t k() const { return round_up(columns, 32); }
  std::uint64_t scale_bytes() const;  // rounded up to 64, as are the codes after it
  std::uint64_t code_bytes() const;
  std::uint64_t panel_bytes() const { return scale_bytes() + code_bytes(); }
};

// The first of `count` rows from `first` on whose values or scales are not all finite numbers: what
// no converter writes, and what the kernels need not agree on.
std::optional<std::uint64_t> find_row_not_finite(const Tensor& tensor, std::uint64_t first,
                                                 std::uint64_t count);

// Rows 16 * panel and on of a tensor whose shape[0] is layout.columns; `out` has panel_bytes.
void pack_panel(const PanelLayout& layout, const Tensor& tensor, std::uint32_t panel,
                std::span<std::byte> out);

}  // namespace millrace::engine
