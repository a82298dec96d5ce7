#pragma once
// Packs weight matrices from the file's row blocks into panels (panel_layout.hpp). Thread safety:
// pure functions.
#include <cstddef>
#include <cstdint>
#include <span>

#include "engine/core/gguf/file.hpp"
#include "engine/core/model/backend/panel_layout.hpp"

namespace millrace::engine {

// Packs 16 rows, from row 16 * panel on, of a tensor whose shape[0] is layout.columns; `out` has
// panel_bytes. The scales are multiplied by `factor`, which only formats with scales as float
// allow; each product is rounded once.
void pack_panel(const PanelLayout& layout, const Tensor& tensor, std::uint32_t panel,
                std::span<std::byte> out, float factor = 1.0f);

// Rows of a tensor that stand in one panel, and whose scales are multiplied by `factor`.
struct PanelRows {
  const Tensor& tensor;
  std::uint64_t first_row = 0;
  std::uint32_t rows = 0;
  float factor = 1.0f;
};

// Packs at most 8 rows of each of two tensors of one type into a panel: those of `upper` are its
// rows from 0 on, those of `lower` from 8 on. Others are zero.
void pack_pair(const PanelLayout& layout, const PanelRows& upper, const PanelRows& lower,
               std::span<std::byte> out);

}  // namespace millrace::engine
