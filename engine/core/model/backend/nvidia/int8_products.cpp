#include "engine/core/model/backend/nvidia/int8_products.hpp"

#include <array>

#include "engine/core/model/backend/nvidia/warps.hpp"
#include "engine/core/model/program_text.hpp"
#include "kernels/matmul/int8_panel.h"

namespace millrace::engine {
namespace {

constexpr std::uint32_t int8_tile_columns = 8;

// From the largest on; the last serves whatever has too few columns or panels for the others.
constexpr std::array<Int8WarpShape, 4> int8_warp_shapes{{
    {.warps = 4, .panels = 2, .tiles = 8, .stages = 3},
    {.warps = 4, .panels = 1, .tiles = 4, .stages = 3},
    {.warps = 4, .panels = 1, .tiles = 2, .stages = 4},
    {.warps = 2, .panels = 1, .tiles = 1, .stages = 4},
}};

Grid int8_grid_of(const Int8WarpShape& shape, std::uint32_t panels, std::uint32_t columns) {
  return {.groups = {parts(columns, shape.tiles * int8_tile_columns),
                     parts(panels, shape.warps * shape.panels)},
          .local = {warp_items, shape.warps}};
}

}  // namespace

// Whether a group has the local memory for it.
bool Int8Products::fits(const Int8WarpShape& shape) const {
  constexpr std::uint32_t vector_bytes = 16;
  const std::uint32_t stage =
      INT8_STAGE_VECTORS(shape.warps * shape.panels, shape.tiles * int8_tile_columns) *
      vector_bytes;
  return shape.stages * stage <= local_limit(target_->device->info().compute_capability);
}

// The largest whose tiles are mostly used, and whose groups keep the multiprocessors busy.
const Int8WarpShape& Int8Products::shape_for(std::uint32_t panels, std::uint32_t columns) const {
  const std::size_t multiprocessors = target_->device->info().compute_units;
  for (const Int8WarpShape& shape : int8_warp_shapes) {
    const Grid grid = int8_grid_of(shape, panels, columns);
    if (shape.tiles * int8_tile_columns < 2 * columns && fits(shape) &&
        10 * grid.groups.x * grid.groups.y >= 7 * multiprocessors) {
      return shape;
    }
  }
  return int8_warp_shapes.back();
}

Status Int8Products::prepare(const PanelLayout& layout) {
  const std::uint32_t groups = INT8_GROUPS(layout.columns);
  for (const Int8WarpShape& shape : int8_warp_shapes) {
    if (!fits(shape)) continue;
    Kernel& kernel = kernels_[{groups, shape}];
    if (kernel) continue;
    ProgramSpec program{
        .name = "int8_matmul", .sources = {"matmul/int8_nvidia.cl"}, .defines = layout.defines()};
    const auto add = [&](std::string_view name, std::uint64_t value) {
      program.defines.push_back(define(name, value));
    };
    add("MATRIX_UNIT", target_->device->info().has_matrix_unit() ? 1 : 0);
    add("GROUP_WARPS", shape.warps);
    add("WARP_PANELS", shape.panels);
    add("WARP_TILES", shape.tiles);
    add("STAGES", shape.stages);
    program.defines.push_back(target_->gate_define());
    MILLRACE_ASSIGN(const Program built, target_->device->build(program));
    MILLRACE_ASSIGN(kernel, target_->device->kernel(built, "matmul"));
  }
  return {};
}

Status Int8Products::launch(const ProductCall& call, const WeightRun& run, std::uint32_t mode) {
  const Int8WarpShape& shape = shape_for(run.panels, call.columns);
  return target_->device->launch(kernels_.at({INT8_GROUPS(call.matrix.columns), shape}),
                                 int8_grid_of(shape, run.panels, call.columns),
                                 {run.buffer, call.x.bytes, call.out, call.matrix.bias, run.panels,
                                  call.columns, call.out_stride, run.first_row, mode});
}

}  // namespace millrace::engine
