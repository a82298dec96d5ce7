#pragma once
// The programs of matrix products, the same for dense layers and for experts, and the launch shape
// of the generic family. Thread safety: pure functions.
#include <cstdint>

#include "engine/core/device/device.hpp"
#include "engine/core/model/panel.hpp"
#include "kernels/tuned.hpp"

namespace millrace::engine {

enum class Inputs : std::uint8_t { rows, codes };  // of fp32 products, of integer products

// The program of kernels/matmul/exact_*.cl or integer_*.cl for one format and depth.
ProgramSpec product_program(const Device& device, const PanelLayout& layout, Inputs inputs,
                            const kernels::Tuning& tuning);

// One work-item for each output, in the generic family.
Grid generic_product_grid(std::uint32_t panels, std::uint32_t columns);

}  // namespace millrace::engine
