// The matrix products of the cpu family, alone and together with the gate after them.
#include <algorithm>

#include "engine/core/model/backend/cpu/cpu_backend.hpp"
#include "engine/core/model/backend/product_mode.hpp"
#include "engine/core/model/program_text.hpp"

namespace millrace::engine {

ProgramSpec cpu_product_program(const Target& target, const PanelLayout& layout, bool codes) {
  ProgramSpec program{.name = codes ? "integer_matmul" : "matmul",
                      .sources = {codes ? "matmul/integer_cpu.cl" : "matmul/exact_cpu.cl"},
                      .defines = layout.defines()};
  const auto add = [&](std::string_view name, std::uint64_t value) {
    program.defines.push_back(define(name, value));
  };
  add(codes ? "TILE" : "FLOAT_TILE", codes ? target.tuning.integer_tile : target.tuning.float_tile);
  add("X_STRIDE", codes ? code_stride(layout.columns) : input_stride(layout.columns));
  if (codes) add("DOT", static_cast<std::uint64_t>(target.device->dot()));
  return program;
}

Status CpuBackend::prepare_product(const Projection& matrix, MathMode math) {
  for (const WeightRun& run : matrix.runs) {
    const PanelLayout layout{run.format, matrix.columns};
    const bool codes = inputs_of(run.format, matrix.columns, math).codes;
    const ProductKey key{run.format, layout.k(), codes};
    Product& product = products_[key];
    if (product.plain) continue;
    MILLRACE_ASSIGN(product, build_product(layout, codes));
  }
  return {};
}

Result<CpuBackend::Product> CpuBackend::build_product(const PanelLayout& layout, bool codes) {
  ProgramSpec program = cpu_product_program(target(), layout, codes);
  if (codes) program.defines.push_back(target().gate_define());
  MILLRACE_ASSIGN(const Program built, device_->build(program));
  Product product;
  MILLRACE_ASSIGN(product.plain, device_->kernel(built, "matmul"));
  if (!codes) return product;
  MILLRACE_ASSIGN(product.gate_up, device_->kernel(built, "gate_up"));
  MILLRACE_TRY(scratch_.reserve_sums(*device_));
  return product;
}

CpuBackend::Product& CpuBackend::product_of(const WeightRun& run, const Projection& matrix,
                                            bool codes) {
  return products_.at({run.format, PanelLayout{run.format, matrix.columns}.k(), codes});
}

Status CpuBackend::project(const ProductCall& call, MathMode math) {
  const Projection& matrix = call.matrix;
  const std::uint32_t mode = product_mode(call.accumulate, matrix.bias);
  const std::uint32_t cores = device_->info().compute_units;
  for (const WeightRun& run : matrix.runs) {
    const bool codes = inputs_of(run.format, matrix.columns, math).codes;
    Kernel& kernel = product_of(run, matrix, codes).plain;
    if (codes) {
      MILLRACE_TRY(
          device_->launch(kernel, {.groups = {cores}},
                          {run.buffer, call.x.codes, call.out, matrix.bias, run.panels,
                           call.columns, call.out_stride, run.first_row, mode, scratch_.claims}));
      continue;
    }
    // Launch enough groups that a late thread finds work, but no more than there are units of
    // panels that a tile takes at once.
    const std::uint32_t unit = call.columns <= 4 ? 4 : 1, units = (run.panels + unit - 1) / unit;
    const Grid grid{.groups = {std::clamp(units, 1u, target().tuning.product_groups * cores)},
                    .local = {}};
    MILLRACE_TRY(
        device_->launch(kernel, grid,
                        {run.buffer, call.x.rows, call.out, matrix.bias, run.panels, call.columns,
                         input_stride(matrix.columns), call.out_stride, run.first_row, mode}));
  }
  return {};
}

Result<Forms> CpuBackend::gated(const GatedCall& call) {
  const Projection& matrix = call.matrix;
  if (matrix.first.size() == 1) return Forms{};  // there is no gate
  const std::uint32_t width = matrix.first[1];   // of the gate, rounded up to 16
  const bool whole = width % block_columns == 0 && !call.forms.rows;
  if (!whole || matrix.runs.size() != 1 || inputs_of(matrix).rows) return Forms{};
  const WeightRun& run = matrix.runs[0];
  MILLRACE_TRY(device_->launch(product_of(run, matrix, true).gate_up,
                               {.groups = {device_->info().compute_units}},
                               {run.buffer, call.x.codes, scratch_.sums, call.out.codes,
                                matrix.bias, run.panels, call.tokens, code_stride(width),
                                product_mode(Accumulate::replace, matrix.bias), scratch_.claims}));
  return Forms{.codes = true};
}

}  // namespace millrace::engine
