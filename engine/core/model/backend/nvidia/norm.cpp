// The norms of NVIDIA GPUs.
#include "engine/core/model/backend/nvidia/nvidia_backend.hpp"
#include "engine/core/model/backend/nvidia/warps.hpp"
#include "engine/core/model/program_text.hpp"

namespace millrace::engine {

Status NvidiaBackend::prepare_norm() {
  const std::uint32_t vectors = row_vectors(target().spec.width);
  if (!rounds(target().math) || vectors == 0) return {};
  ProgramSpec program{.name = "norm", .sources = {"norm/nvidia.cl"}, .defines = {}};
  const auto add = [&](std::string_view name, std::uint64_t value) {
    program.defines.push_back(define(name, value));
  };
  add("VECTORS", vectors);
  add("ITEMS", row_items(vectors));
  add("NORM_CENTERED", target().spec.centered_norms ? 1 : 0);
  add("NORM_BYTES", target().math == MathMode::int8 ? 1 : 0);
  add("MATRIX_UNIT", target().device->info().has_matrix_unit() ? 1 : 0);
  MILLRACE_ASSIGN(const Program built, target().device->build(program));
  MILLRACE_ASSIGN(norm_, target().device->kernel(built, "rms_norm"));
  return {};
}

Result<Forms> NvidiaBackend::norm(const NormCall& call) {
  if (!norm_) return GenericBackend::norm(call);
  const std::uint32_t width = target().spec.width, stride = input_stride(width);
  MILLRACE_TRY(target().device->launch(
      norm_,
      {.groups = {call.gather ? call.step.outputs : call.step.tokens},
       .local = {row_items(row_vectors(width))}},
      {call.x, call.weight, call.forms.rows ? call.out.rows : no_buffer,
       call.forms.codes ? call.out.codes : no_buffer, call.forms.bytes ? call.out.bytes : no_buffer,
       call.step_words, call.step.outputs_at, call.gather ? 1u : 0u, stride, stride,
       target().code_stride(width), target().inverse_width(), target().spec.norm_epsilon}));
  return call.forms;
}

}  // namespace millrace::engine
