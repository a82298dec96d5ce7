// The integer products of NVIDIA GPUs.
#include "engine/core/model/backend/nvidia/nvidia_backend.hpp"
#include "engine/core/model/backend/product_mode.hpp"
#include "engine/core/model/program_text.hpp"

namespace millrace::engine {
namespace {

constexpr std::uint32_t tile_columns = 8;
constexpr std::uint32_t warp_items = 32;
constexpr std::uint32_t wide_warps = 4, narrow_warps = 8;  // of a group
constexpr std::uint32_t narrow_columns = 16;               // up to so many run narrow

constexpr WarpShape narrow{.panels = 1, .tiles = 1, .narrow = true};
constexpr WarpShape wide{.panels = 2, .tiles = 4};
constexpr WarpShape large{.panels = 4, .tiles = 4, .pipelined = true};
constexpr std::uint32_t large_warps = 16;  // of a multiprocessor; with fewer, wide is faster

constexpr std::uint32_t parts(std::uint32_t count, std::uint32_t each) {
  return (count + each - 1) / each;
}

Grid grid_of(const WarpShape& shape, std::uint32_t panels, std::uint32_t columns) {
  const std::uint32_t warps = shape.narrow ? narrow_warps : wide_warps;
  const std::uint32_t own = shape.narrow ? 1 : wide_warps * shape.panels;
  return {.groups = {parts(panels, own), parts(columns, shape.tiles * tile_columns)},
          .local = {warp_items, warps}};
}

}  // namespace

WarpShape NvidiaBackend::shape_for(std::uint32_t panels, std::uint32_t columns) const {
  if (columns <= narrow_columns) return narrow;
  const std::uint32_t warps =
      parts(panels, large.panels) * parts(columns, large.tiles * tile_columns);
  return warps < large_warps * target().device->info().compute_units ? wide : large;
}

Status NvidiaBackend::prepare(const PanelLayout& layout, const WarpShape& shape) {
  Kernel& kernel = unit_products_[{layout.format, layout.k(), shape}];
  if (kernel) return {};
  ProgramSpec program{.name = "integer_matmul",
                      .sources = {"matmul/integer_nvidia.cl"},
                      .defines = layout.defines()};
  const auto add = [&](std::string_view name, std::uint64_t value) {
    program.defines.push_back(define(name, value));
  };
  add("X_STRIDE", code_stride(layout.columns));
  add("MATRIX_UNIT", target().device->info().has_integer_mma() ? 1 : 0);
  add("MMA_WARPS", shape.narrow ? narrow_warps : wide_warps);
  add("NARROW", shape.narrow ? 1 : 0);
  add("WARP_PANELS", shape.panels);
  add("WARP_TILES", shape.tiles);
  add("PIPELINED", shape.pipelined ? 1 : 0);
  MILLRACE_ASSIGN(const Program built, target().device->build(program));
  MILLRACE_ASSIGN(kernel,
                  target().device->kernel(built, shape.narrow ? "matmul_narrow" : "matmul"));
  return {};
}

Status NvidiaBackend::prepare_codes(const PanelLayout& layout) {
  for (const WarpShape& shape : {narrow, wide, large}) MILLRACE_TRY(prepare(layout, shape));
  return {};
}

Status NvidiaBackend::project_codes(const ProductCall& call, const WeightRun& run) {
  const Projection& matrix = call.matrix;
  const WarpShape shape = shape_for(run.panels, call.columns);
  return target().device->launch(
      unit_products_.at({run.format, round_up(matrix.columns, block_columns), shape}),
      grid_of(shape, run.panels, call.columns),
      {run.buffer, call.x.codes, call.out, matrix.bias, run.panels, call.columns, call.out_stride,
       run.first_row, product_mode(call.accumulate, matrix.bias)});
}

}  // namespace millrace::engine
