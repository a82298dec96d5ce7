#pragma once
// Packs weight matrices from the file's row blocks into panels (panel_layout.hpp). Thread safety: a
// pure function.
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

}  // namespace millrace::engine
