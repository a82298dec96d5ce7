#include "engine/core/model/backend/cpu/cpu_experts.hpp"

#include "engine/core/model/backend/cpu/cpu_backend.hpp"
#include "engine/core/model/backend/product_mode.hpp"
#include "engine/core/model/program_text.hpp"

namespace millrace::engine {

CpuExperts::ProductKey CpuExperts::key_of(const PanelFormat& format, std::uint32_t columns,
                                          bool gated) const {
  return {format, PanelLayout{format, columns}.k(), gated};
}

// Gate, up, activation and quantization run in one launch if all of it is in codes.
bool CpuExperts::fuses_gate(const ExpertWeights& weights) const {
  const ExpertMatrix& gate_up = weights.gate_up;
  return has_gate(gate_) && !backend_->inputs_of(gate_up).rows &&
         !backend_->inputs_of(weights.down).rows && spec_.width % block_columns == 0 &&
         gate_up.runs[0].panels * panel_rows == gate_up.rows;
}

Status CpuExperts::prepare(const ExpertWeights& weights) {
  MILLRACE_TRY(scratch_->reserve_sums(*device_));
  MILLRACE_TRY(prepare_matrix(weights.gate_up, fuses_gate(weights)));
  return prepare_matrix(weights.down, false);
}

Status CpuExperts::prepare(const ExpertMatrix& matrix) {
  MILLRACE_TRY(scratch_->reserve_sums(*device_));
  return prepare_matrix(matrix, false);
}

Status CpuExperts::prepare_matrix(const ExpertMatrix& matrix, bool gated) {
  for (const ExpertRun& run : matrix.runs) {
    const ProductKey key = key_of(run.format, matrix.columns, gated);
    Product& product = products_[key];
    if (product.plain) continue;
    MILLRACE_ASSIGN(product, build_product({run.format, matrix.columns}, gated));
  }
  return {};
}

Result<CpuExperts::Product> CpuExperts::build_product(const PanelLayout& layout, bool gated) {
  const bool integers = is_integer(layout.format, layout.columns);
  ProgramSpec program = cpu_product_program(backend_->target(), layout, integers);
  program.name = "experts_matmul";
  program.sources = {integers ? "experts/integer_cpu.cl" : "experts/exact_cpu.cl"};
  if (gated) program.defines.push_back(define("GATE", static_cast<std::uint64_t>(gate_)));
  MILLRACE_ASSIGN(const Program built, device_->build(program));
  Product product;
  MILLRACE_ASSIGN(product.plain, device_->kernel(built, "experts_matmul"));
  if (!gated) return product;
  MILLRACE_ASSIGN(product.gate_up, device_->kernel(built, "experts_gate_up"));
  return product;
}

Status CpuExperts::run(const ExpertMatrix& matrix, const ExpertsCall& call, const Buffer& out) {
  const std::uint32_t mode = product_mode(Accumulate::replace, matrix.bias);
  const std::uint32_t by_token = call.by_token ? 1 : 0;
  for (const ExpertRun& run : matrix.runs) {
    const bool integer = is_integer(run.format, matrix.columns);
    Kernel& kernel = products_.at(key_of(run.format, matrix.columns, false)).plain;
    MILLRACE_TRY(device_->launch(kernel, {.groups = {device_->info().compute_units}, .local = {}},
                                 {run.buffer, integer ? call.x.codes : call.x.rows,
                                  integer ? call.sorted.codes : call.sorted.rows, out, matrix.bias,
                                  call.runs, run.panels, run.first_expert, run.experts, matrix.rows,
                                  run.first_row, matrix.rows, by_token, mode, scratch_->claims}));
  }
  return {};
}

Status CpuExperts::gated(const ExpertWeights& weights, const ExpertsCall& call,
                         const Buffer& codes) {
  const ExpertMatrix& matrix = weights.gate_up;
  for (const ExpertRun& run : matrix.runs) {
    Kernel& kernel = products_.at(key_of(run.format, matrix.columns, true)).gate_up;
    MILLRACE_TRY(device_->launch(
        kernel, {.groups = {device_->info().compute_units}, .local = {}},
        {run.buffer, call.x.codes, call.sorted.codes, scratch_->sums, codes, matrix.bias, call.runs,
         run.panels, run.first_expert, run.experts, matrix.rows, code_stride(spec_.width),
         product_mode(Accumulate::replace, matrix.bias), scratch_->claims}));
  }
  return {};
}

}  // namespace millrace::engine
