// The matrix products of the generic family.
#include "engine/core/model/backend/generic/generic_backend.hpp"
#include "engine/core/model/backend/product_mode.hpp"
#include "engine/core/model/program_text.hpp"

namespace millrace::engine {
namespace {

constexpr std::uint32_t group_columns = 8;  // of a group in the generic kernels

}  // namespace

ProgramSpec generic_product_program(const PanelLayout& layout, bool codes, CodeForm form) {
  ProgramSpec program{.name = codes ? "integer_matmul" : "matmul",
                      .sources = {codes ? "matmul/integer_generic.cl" : "matmul/exact_generic.cl"},
                      .defines = layout.defines()};
  program.defines.push_back(define("GROUP_COLUMNS", group_columns));
  // The kernel of fp32 rows takes this number as an argument.
  if (codes) program.defines.push_back(define("X_STRIDE", code_stride(layout.columns, form)));
  return program;
}

Grid generic_product_grid(std::uint32_t panels, std::uint32_t columns) {
  return {.groups = {panels, (columns + group_columns - 1) / group_columns},
          .local = {panel_rows, group_columns}};
}

Status GenericBackend::prepare_product(const Projection& matrix, MathMode math) {
  for (const WeightRun& run : matrix.runs) {
    const PanelLayout layout = layout_of(run.format, matrix.columns);
    MILLRACE_TRY(inputs_of(run.format, matrix.columns, math).rows ? prepare_rows(layout)
                                                                  : prepare_codes(layout));
  }
  return {};
}

Status GenericBackend::prepare(const PanelLayout& layout, bool codes) {
  Kernel& kernel = products_[{layout.format, layout.k(), codes}];
  if (kernel) return {};
  MILLRACE_ASSIGN(const Program built, device_->build(generic_product_program(layout, codes)));
  MILLRACE_ASSIGN(kernel, device_->kernel(built, "matmul"));
  return {};
}

Status GenericBackend::prepare_rows(const PanelLayout& layout) {
  return prepare(layout, false);
}

Status GenericBackend::prepare_codes(const PanelLayout& layout) {
  return prepare(layout, true);
}

Status GenericBackend::project(const ProductCall& call, MathMode math) {
  for (const WeightRun& run : call.matrix.runs) {
    const bool rows = inputs_of(run.format, call.matrix.columns, math).rows;
    MILLRACE_TRY(rows ? project_rows(call, run) : project_codes(call, run));
  }
  return {};
}

Status GenericBackend::project_rows(const ProductCall& call, const WeightRun& run) {
  const Projection& matrix = call.matrix;
  return device_->launch(products_.at({run.format, round_up(matrix.columns, block_columns), false}),
                         generic_product_grid(run.panels, call.columns),
                         {run.buffer, call.x.rows, call.out, matrix.bias, run.panels, call.columns,
                          input_stride(matrix.columns), call.out_stride, run.first_row,
                          product_mode(call.accumulate, matrix.bias)});
}

Status GenericBackend::project_codes(const ProductCall& call, const WeightRun& run) {
  const Projection& matrix = call.matrix;
  return device_->launch(
      products_.at({run.format, round_up(matrix.columns, block_columns), true}),
      generic_product_grid(run.panels, call.columns),
      {run.buffer, call.x.codes, call.out, matrix.bias, run.panels, call.columns, call.out_stride,
       run.first_row, product_mode(call.accumulate, matrix.bias)});
}

Result<Forms> GenericBackend::gated(const GatedCall&) {
  return Forms{};
}

}  // namespace millrace::engine
