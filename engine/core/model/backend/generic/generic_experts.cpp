#include "engine/core/model/backend/generic/generic_experts.hpp"

#include "engine/core/model/backend/generic/generic_backend.hpp"
#include "engine/core/model/backend/product_mode.hpp"
#include "engine/core/model/program_text.hpp"

namespace millrace::engine {

Status GenericExperts::prepare(const ExpertWeights& weights) {
  MILLRACE_TRY(prepare(weights.gate_up));
  return prepare(weights.down);
}

Status GenericExperts::prepare(const ExpertMatrix& matrix) {
  for (const ExpertRun& run : matrix.runs) {
    const PanelLayout layout = backend_->layout_of(run.format, matrix.columns);
    const bool codes = reads_codes(run.format, matrix.columns);
    Kernel& kernel = products_[{run.format, layout.k(), codes}];
    if (kernel) continue;
    const Target& target = backend_->target();
    ProgramSpec program = generic_product_program(layout, codes, target.code_form);
    program.name = "experts_matmul";
    program.sources = {!codes                                 ? "experts/exact_generic.cl"
                       : target.code_form == CodeForm::halves ? "experts/half_generic.cl"
                                                              : "experts/integer_generic.cl"};
    if (!codes) program.defines.push_back(define("X_STRIDE", input_stride(layout.columns)));
    MILLRACE_ASSIGN(const Program built, device_->build(program));
    MILLRACE_ASSIGN(kernel, device_->kernel(built, "experts_matmul"));
  }
  return {};
}

Status GenericExperts::run(const ExpertMatrix& matrix, const ExpertsCall& call, const Buffer& out) {
  const std::uint32_t mode = product_mode(Accumulate::replace, matrix.bias);
  const std::uint32_t by_token = call.by_token ? 1 : 0;
  for (const ExpertRun& run : matrix.runs) {
    const bool codes = reads_codes(run.format, matrix.columns);
    const Buffer& from = codes ? call.x.codes : call.x.rows;
    Kernel& kernel = products_.at({run.format, round_up(matrix.columns, block_columns), codes});
    MILLRACE_TRY(device_->launch(
        kernel, generic_product_grid(run.panels, call.slot_count),
        {run.buffer, from, out, matrix.bias, call.slots, call.slot_count, run.panels,
         run.first_expert, run.experts, matrix.rows, run.first_row, matrix.rows, by_token, mode}));
  }
  return {};
}

Status GenericExperts::gated(const ExpertWeights&, const ExpertsCall&, const Buffer&) {
  return fail(Code::internal, "the generic family does not join gate and up of experts");
}

}  // namespace millrace::engine
