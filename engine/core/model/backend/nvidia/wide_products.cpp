#include "engine/core/model/backend/nvidia/wide_products.hpp"

#include <algorithm>
#include <array>
#include <limits>

#include "engine/core/model/backend/nvidia/warps.hpp"
#include "engine/core/model/program_text.hpp"
#include "kernels/matmul/half_stage.h"
#include "schemas/base/log.hpp"

namespace millrace::engine {
namespace {

constexpr std::uint32_t capability = 90;  // whose instructions these are
constexpr std::uint32_t warpgroup_panels = 4;
constexpr std::uint32_t wide_stage_blocks = 2;

// Microseconds of 4,096 columns of K on an H100, where memory keeps up (kernels/matmul/README.md).
constexpr std::array<WideShape, 4> wide_shapes{{
    {.warpgroups = 2, .columns = 256, .groups = 1, .alone = 57, .shared = 57},
    {.warpgroups = 2, .columns = 128, .groups = 1, .alone = 32, .shared = 32},
    {.warpgroups = 1, .columns = 128, .groups = 2, .alone = 24, .shared = 41},
    {.warpgroups = 1, .columns = 64, .groups = 2, .alone = 21, .shared = 26},
}};

// The same of matrices of F16, in tenths, and less 6 microseconds for the launch.
constexpr std::array<WideShape, 7> rows_shapes{{
    {.warpgroups = 2, .columns = 256, .groups = 1, .alone = 420, .shared = 420, .copiers = 2},
    {.warpgroups = 2, .columns = 128, .groups = 1, .alone = 215, .shared = 215},
    {.warpgroups = 2, .columns = 64, .groups = 1, .alone = 140, .shared = 140},
    {.warpgroups = 1, .columns = 64, .groups = 2, .alone = 125, .shared = 220},
    {.warpgroups = 1, .columns = 32, .groups = 2, .alone = 110, .shared = 130},
    {.warpgroups = 1, .columns = 8, .groups = 2, .alone = 105, .shared = 120},
    {.warpgroups = 3, .columns = 128, .groups = 1, .alone = 320, .shared = 320, .copiers = 2},
}};

// The same of bytes, less 5 microseconds, on an H200.
constexpr std::array<WideShape, 7> bytes_shapes{{
    {.warpgroups = 2, .columns = 256, .groups = 1, .alone = 265, .shared = 265, .copiers = 2},
    {.warpgroups = 2, .columns = 128, .groups = 1, .alone = 133, .shared = 133},
    {.warpgroups = 2, .columns = 64, .groups = 1, .alone = 75, .shared = 75},
    {.warpgroups = 1, .columns = 64, .groups = 2, .alone = 72, .shared = 125},
    {.warpgroups = 1, .columns = 32, .groups = 2, .alone = 66, .shared = 75},
    {.warpgroups = 1, .columns = 8, .groups = 2, .alone = 64, .shared = 70},
    {.warpgroups = 3, .columns = 128, .groups = 1, .alone = 187, .shared = 187, .copiers = 2},
}};

// Whether both operands come from local memory.
bool by_rows(const PanelFormat& format) {
  return format.codes == Codes::f16 || format.codes == Codes::bytes;
}

std::span<const WideShape> all_shapes(const PanelFormat& format) {
  if (format.codes == Codes::bytes) return bytes_shapes;
  if (by_rows(format)) return rows_shapes;
  return wide_shapes;
}

std::uint32_t tiles(const WideShape& shape, std::uint32_t panels, std::uint32_t columns) {
  return parts(panels, shape.warpgroups * warpgroup_panels) * parts(columns, shape.columns);
}

// The local memory of a group.
std::uint32_t wide_local_bytes(const PanelLayout& layout, const WideShape& shape,
                               std::uint32_t stages, bool rows) {
  const PanelFormat& format = layout.format;
  if (rows) {
    const std::uint32_t slots =
        layout.bytes() ? ROWS_WGMMA_SLOTS(INT8_GROUPS(layout.columns), stages) : 0;
    return ROWS_WGMMA_BYTES(stages, shape.columns, shape.warpgroups) +
           slots * ROWS_WGMMA_SCALES(shape.columns);
  }
  const auto words = static_cast<std::uint32_t>(format.codes);
  const std::uint32_t panel =
      STAGE_PANEL(wide_stage_blocks, STAGE_BLOCK_VECTORS(format.quantized(), words),
                  format.scales_per_block() * format.scale_bytes,
                  STAGE_STEP_VECTORS(format.has_steps(), format.affine));
  return WGMMA_BYTES(stages, shape.columns, shape.warpgroups * warpgroup_panels, panel);
}

// The stages that fit the local memory of a multiprocessor; at least 3 are needed.
std::uint32_t stages(const PanelLayout& layout, const WideShape& shape, bool rows) {
  constexpr std::uint32_t most_bytes = 226 * 1024, most = 8;
  std::uint32_t out = most;
  while (out > 3 && wide_local_bytes(layout, shape, out, rows) > most_bytes / shape.groups) --out;
  return out;
}

}  // namespace

WideProducts::WideProducts(const Target& target) : target_(&target) {
  const std::uint32_t has = target.device->info().compute_capability;
  if (has != capability) {
    why_not_ = "the instructions of four warps are those of compute capability 9.0";
  }
}

std::uint32_t WideProducts::shapes(const PanelFormat& format) {
  return static_cast<std::uint32_t>(all_shapes(format).size());
}

std::span<const WideShape> WideProducts::shapes_for(const PanelFormat& format) const {
  const std::uint32_t forced = target_->variant.wide_shape;
  const std::span<const WideShape> all = all_shapes(format);
  return forced > 0 ? all.subspan(forced - 1, 1) : all;
}

Status WideProducts::prepare(const PanelLayout& layout) {
  if (!why_not_.empty()) return {};
  for (const WideShape& shape : shapes_for(layout.format)) {
    const Status done = build(layout, shape);
    if (done) continue;
    if (done.error().code != Code::kernel_build) return done;
    give_up(done.error());
    for (const WideShape& each : shapes_for(layout.format))
      kernels_.erase({layout.format, layout.k(), each});
    return {};
  }
  return {};
}

void WideProducts::give_up(const Error& error) {
  log_warn("products of many columns run by instructions of one warp, which is slower", error);
  why_not_ = "the driver's compiler gave a text that was not foreseen";
}

ProgramSpec wide_program(const Target& target, const PanelLayout& layout, const WideShape& shape,
                         bool rows) {
  ProgramSpec program{.name = "wide_matmul",
                      .sources = {rows ? "matmul/rows_wgmma.cl" : "matmul/half_wgmma.cl"},
                      .defines = layout.defines(),
                      .completed = true};
  const auto add = [&](std::string_view name, std::uint64_t value) {
    program.defines.push_back(define(name, value));
  };
  add("X_STRIDE", layout.bytes() ? code_stride(layout.columns, CodeForm::bytes)
                                 : target.code_stride(layout.columns));
  add("MATRIX_UNIT", 1);
  add("WARPGROUPS", shape.warpgroups);
  add("TILE_COLUMNS", shape.columns);
  if (rows) {
    add("COPIERS", shape.copiers);
  } else {
    add("STAGE_BLOCKS", wide_stage_blocks);
  }
  add("STAGES", stages(layout, shape, rows));
  program.defines.push_back(target.gate_define());
  return program;
}

Status WideProducts::build(const PanelLayout& layout, const WideShape& shape) {
  Kernel& kernel = kernels_[{layout.format, layout.k(), shape}];
  if (kernel) return {};
  Device& device = *target_->device;
  MILLRACE_ASSIGN(const Program built,
                  device.build(wide_program(*target_, layout, shape, by_rows(layout.format))));
  MILLRACE_ASSIGN(kernel, device.kernel(built, "matmul"));
  return {};
}

// For fewer columns the instructions of one warp are faster, above all with few bytes of weights.
std::optional<std::uint32_t> WideProducts::least_columns(const PanelFormat& format,
                                                         std::uint32_t k) const {
  if (!kernels_.contains({format, k, shapes_for(format).front()})) return std::nullopt;
  if (by_rows(format) || target_->variant.wide_shape > 0) return 1;
  const bool small = format.quantized() && format.codes != Codes::bits8;
  return small ? 17 : 9;
}

// The one whose groups are done first.
const WideShape& WideProducts::shape_for(const PanelFormat& format, std::uint32_t panels,
                                         std::uint32_t columns) const {
  const std::uint32_t multiprocessors = target_->device->info().compute_units;
  const auto time = [&](const WideShape& shape) {
    const std::uint32_t each = multiprocessors * shape.groups;
    const std::uint32_t count = tiles(shape, panels, columns), rest = count % each;
    const std::uint32_t last = rest > multiprocessors ? shape.shared : shape.alone;
    return count / each * shape.shared + (rest > 0 ? last : 0);
  };
  return *std::ranges::min_element(shapes_for(format), {}, time);
}

Status WideProducts::launch(const ProductCall& call, const WeightRun& run, std::uint32_t mode) {
  const Projection& matrix = call.matrix;
  const WideShape& shape = shape_for(run.format, run.panels, call.columns);
  const std::uint32_t groups = std::min(tiles(shape, run.panels, call.columns),
                                        target_->device->info().compute_units * shape.groups);
  const std::uint32_t copying = by_rows(run.format) ? shape.copiers : 1;  // warps
  return target_->device->launch(
      kernels_.at({run.format, round_up(matrix.columns, block_columns), shape}),
      {.groups = {groups}, .local = {warp_items, shape.warpgroups * warpgroup_panels + copying}},
      {run.buffer, run.format.codes == Codes::bytes ? call.x.bytes : call.x.codes, call.out,
       matrix.bias, run.panels, call.columns, call.out_stride, run.first_row, mode});
}

}  // namespace millrace::engine
