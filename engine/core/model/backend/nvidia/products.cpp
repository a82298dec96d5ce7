// The products of NVIDIA GPUs.
#include <array>

#include "engine/core/model/backend/nvidia/nvidia_backend.hpp"
#include "engine/core/model/backend/nvidia/warps.hpp"
#include "engine/core/model/backend/product_mode.hpp"
#include "engine/core/model/program_text.hpp"
#include "kernels/matmul/half_stage.h"
#include "kernels/matmul/int8_panel.h"

namespace millrace::engine {
namespace {

constexpr std::uint32_t tile_columns = 8;

// From the largest on; the last serves whatever has too few columns or panels for the others.
// Measured on an H100 (kernels/matmul/README.md).
constexpr std::array<WarpShape, 7> shapes{{
    {.warps = 4,
     .panels = 2,
     .tiles = 16,
     .stage_blocks = 1,
     .stages = 4,
     .weights = Weights::codes},
    {.warps = 8, .panels = 2, .tiles = 16, .stages = 3, .weights = Weights::halves},
    {.warps = 4, .panels = 4, .tiles = 8, .stages = 3},
    {.warps = 4, .panels = 2, .tiles = 8, .stages = 3},
    {.warps = 4, .panels = 1, .tiles = 4, .stage_blocks = 4, .stages = 3},
    {.warps = 4, .panels = 1, .tiles = 2, .stage_blocks = 4, .stages = 4},
    {.warps = 2, .panels = 1, .tiles = 1, .stage_blocks = 8, .stages = 3},
}};

Grid grid_of(const WarpShape& shape, std::uint32_t panels, std::uint32_t columns) {
  return {.groups = {parts(columns, shape.tiles * tile_columns),
                     parts(panels, shape.warps * shape.panels)},
          .local = {warp_items, shape.warps}};
}

// Whether most of a tile would be used.
bool filled(const WarpShape& shape, std::uint32_t columns) {
  return shape.tiles * tile_columns < 2 * columns;
}

// Whether so many groups keep the multiprocessors busy.
bool fills(const Grid& grid, std::uint32_t multiprocessors) {
  return 10 * grid.groups.x * grid.groups.y >= std::size_t{7} * multiprocessors;
}

// The local memory of a group (half_nvidia.cl).
std::uint32_t local_bytes(const PanelFormat& format, const WarpShape& shape) {
  constexpr std::uint32_t vector_bytes = 16;
  const auto words = static_cast<std::uint32_t>(format.codes);
  const std::uint32_t panel =
      STAGE_PANEL(shape.stage_blocks, STAGE_BLOCK_VECTORS(format.quantized(), words),
                  format.scales_per_block() * format.scale_bytes,
                  STAGE_STEP_VECTORS(format.has_steps(), format.affine));
  const std::uint32_t x = STAGE_X(shape.stage_blocks, shape.tiles * tile_columns);
  return shape.stages * (shape.warps * shape.panels * panel + x) * vector_bytes;
}

}  // namespace

Target NvidiaBackend::with_halves(Target target) {
  target.code_form = CodeForm::halves;
  return target;
}

Forms NvidiaBackend::inputs_of(const PanelFormat& format, std::uint32_t columns,
                               MathMode math) const {
  if (format.codes == Codes::bytes) return {.bytes = true};
  const bool codes = rounds(math) && format.codes != Codes::f32 && columns % block_columns == 0;
  return {.rows = !codes, .codes = codes};
}

PanelFormat NvidiaBackend::stored_format(TensorType type, std::uint32_t columns,
                                         bool logits) const {
  const bool int8 = target().math == MathMode::int8 && !logits && type != TensorType::f32;
  if (int8 && columns % block_columns == 0 && columns <= INT8_MOST_COLUMNS) {
    return {.codes = Codes::bytes};
  }
  if (!rounds(target().math)) return format_of(type);
  if (type == TensorType::mxfp4) {
    return {.codes = Codes::bits4, .scale_bytes = 2, .scale_block = 32, .floats = true};
  }
  return format_of(type == TensorType::bf16 ? TensorType::f16 : type);
}

bool NvidiaBackend::suits(const WarpShape& shape, const PanelFormat& format) const {
  const Weights weights = format.quantized() ? Weights::codes : Weights::halves;
  if (shape.weights != Weights::any && shape.weights != weights) return false;
  return local_bytes(format, shape) <= local_limit(target().device->info().compute_capability);
}

const WarpShape& NvidiaBackend::shape_for(const PanelFormat& format, std::uint32_t panels,
                                          std::uint32_t columns) const {
  const std::uint32_t multiprocessors = target().device->info().compute_units;
  for (const WarpShape& shape : shapes) {
    if (filled(shape, columns) && suits(shape, format) &&
        fills(grid_of(shape, panels, columns), multiprocessors)) {
      return shape;
    }
  }
  return shapes.back();
}

ProgramSpec warp_program(const Target& target, const PanelLayout& layout, const WarpShape& shape) {
  ProgramSpec program{
      .name = "half_matmul", .sources = {"matmul/half_nvidia.cl"}, .defines = layout.defines()};
  const auto add = [&](std::string_view name, std::uint64_t value) {
    program.defines.push_back(define(name, value));
  };
  add("X_STRIDE", target.code_stride(layout.columns));
  add("MATRIX_UNIT", target.device->info().has_matrix_unit() ? 1 : 0);
  add("GROUP_WARPS", shape.warps);
  add("WARP_PANELS", shape.panels);
  add("WARP_TILES", shape.tiles);
  add("STAGE_BLOCKS", shape.stage_blocks);
  add("STAGES", shape.stages);
  program.defines.push_back(target.gate_define());
  return program;
}

Status NvidiaBackend::prepare(const PanelLayout& layout, const WarpShape& shape) {
  Kernel& kernel = unit_products_[{layout.format, layout.k(), shape}];
  if (kernel) return {};
  MILLRACE_ASSIGN(const Program built,
                  target().device->build(warp_program(target(), layout, shape)));
  MILLRACE_ASSIGN(kernel, target().device->kernel(built, "matmul"));
  return {};
}

Status NvidiaBackend::prepare_codes(const PanelLayout& layout) {
  MILLRACE_TRY(wide_.prepare(layout));
  // What instructions of four warps take needs no shapes here.
  const auto least = wide_.least_columns(layout.format, layout.k());
  if (layout.bytes()) {
    MILLRACE_TRY(byte_rows_.prepare(layout.columns));
    return least ? Status() : int8_.prepare(layout);
  }
  for (const WarpShape& shape : shapes) {
    const bool chosen = !least || filled(shape, *least - 1) || shape == shapes.back();
    if (chosen && suits(shape, layout.format)) MILLRACE_TRY(prepare(layout, shape));
  }
  return {};
}

Status NvidiaBackend::project_codes(const ProductCall& call, const WeightRun& run) {
  return multiply(call, run, product_mode(call.accumulate, call.matrix.bias));
}

bool NvidiaBackend::pairs_gate(const PanelFormat& format, std::uint32_t columns) const {
  return !inputs_of(format, columns, target().math).rows;
}

Result<Forms> NvidiaBackend::gated(const GatedCall& call) {
  const Projection& matrix = call.matrix;
  if (!matrix.paired) return GenericBackend::gated(call);
  const std::uint32_t width = matrix.rows / 2;
  const std::uint32_t mode = product_mode(Accumulate::replace, matrix.bias) | MODE_GATED;
  const auto store = [&](const Buffer& out, std::uint32_t stride, std::uint32_t more) -> Status {
    const ProductCall product{
        .matrix = matrix, .x = call.x, .columns = call.tokens, .out = out, .out_stride = stride};
    for (const WeightRun& run : matrix.runs) MILLRACE_TRY(multiply(product, run, mode | more));
    return {};
  };
  if (call.forms.rows) MILLRACE_TRY(store(call.out.rows, input_stride(width), 0));
  const Forms made{.rows = call.forms.rows, .codes = call.forms.codes || call.forms.bytes};
  if (made.codes) {
    MILLRACE_TRY(store(call.out.codes, target().code_stride(width), MODE_CODES));
  }
  return made;
}

Status NvidiaBackend::multiply(const ProductCall& call, const WeightRun& run, std::uint32_t mode) {
  const std::uint32_t k = round_up(call.matrix.columns, block_columns);
  const auto least = wide_.least_columns(run.format, k);
  if (least && call.columns >= *least) return wide_.launch(call, run, mode);
  if (run.format.codes == Codes::bytes) return int8_.launch(call, run, mode);
  const Projection& matrix = call.matrix;
  const WarpShape& shape = shape_for(run.format, run.panels, call.columns);
  return target().device->launch(unit_products_.at({run.format, k, shape}),
                                 grid_of(shape, run.panels, call.columns),
                                 {run.buffer, call.x.codes, call.out, matrix.bias, run.panels,
                                  call.columns, call.out_stride, run.first_row, mode});
}

Result<JoinedLayers> NvidiaBackend::join(std::span<const LayerProgram> layers) {
  MILLRACE_ASSIGN(JoinedLayers none, GenericBackend::join(layers));
  none.why += wide_.why_not().empty()
                  ? "; products of many columns run by instructions of four warps"
                  : "; products run by instructions of one warp: " + wide_.why_not();
  return none;
}

}  // namespace millrace::engine
