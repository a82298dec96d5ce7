// The products of NVIDIA GPUs by matrices of floats, such as routers (kernels/matmul/
// exact_nvidia.cl).
#include <array>

#include "engine/core/model/backend/nvidia/nvidia_backend.hpp"
#include "engine/core/model/backend/nvidia/warps.hpp"
#include "engine/core/model/backend/product_mode.hpp"
#include "engine/core/model/program_text.hpp"

namespace millrace::engine {
namespace {

constexpr std::array<std::uint32_t, 2> columns_each{1, 4};  // of a work-item
constexpr std::uint32_t items_of_columns = 8;

}  // namespace

Status NvidiaBackend::prepare_rows(const PanelLayout& layout) {
  if (layout.format.codes != Codes::f32) return GenericBackend::prepare_rows(layout);
  for (const std::uint32_t each : columns_each) {
    Kernel& kernel = float_products_[{layout.k(), each}];
    if (kernel) continue;
    ProgramSpec program{
        .name = "float_matmul", .sources = {"matmul/exact_nvidia.cl"}, .defines = layout.defines()};
    program.defines.push_back(
        define("MATRIX_UNIT", target().device->info().has_matrix_unit() ? 1 : 0));
    program.defines.push_back(define("COLUMNS_EACH", each));
    MILLRACE_ASSIGN(const Program built, target().device->build(program));
    MILLRACE_ASSIGN(kernel, target().device->kernel(built, "matmul"));
  }
  return {};
}

Status NvidiaBackend::project_rows(const ProductCall& call, const WeightRun& run) {
  if (run.format.codes != Codes::f32) return GenericBackend::project_rows(call, run);
  const Projection& matrix = call.matrix;
  // With few groups each multiprocessor waits for the chain of its sums.
  const std::uint32_t multiprocessors = target().device->info().compute_units;
  const std::uint32_t narrow = run.panels * parts(call.columns, items_of_columns);
  const std::uint32_t each = narrow > 4 * multiprocessors ? columns_each[1] : columns_each[0];
  return target().device->launch(
      float_products_.at({round_up(matrix.columns, block_columns), each}),
      {.groups = {run.panels, parts(call.columns, items_of_columns * each)},
       .local = {panel_rows, items_of_columns}},
      {run.buffer, call.x.rows, call.out, matrix.bias, run.panels, call.columns,
       input_stride(matrix.columns), call.out_stride, run.first_row,
       product_mode(call.accumulate, matrix.bias)});
}

}  // namespace millrace::engine
