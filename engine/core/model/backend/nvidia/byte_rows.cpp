#include "engine/core/model/backend/nvidia/byte_rows.hpp"

#include "engine/core/model/backend/nvidia/warps.hpp"
#include "engine/core/model/program_text.hpp"

namespace millrace::engine {
namespace {

// Work-items of a row, each of which has as many vectors, where that leaves whole warps.
std::uint32_t byte_items(std::uint32_t columns) {
  const std::uint32_t vectors = row_vectors(columns);
  return round_up(parts(vectors, parts(vectors, row_items(vectors))), warp_items);
}

}  // namespace

Status ByteRows::prepare(std::uint32_t columns) {
  for (const bool codes : {false, true}) {
    Kernel& kernel = kernels_[{columns, codes}];
    if (kernel) continue;
    ProgramSpec program{.name = "quantize_bytes", .sources = {"quantize/bytes.cl"}, .defines = {}};
    const auto add = [&](std::string_view name, std::uint64_t value) {
      program.defines.push_back(define(name, value));
    };
    add("VECTORS", row_vectors(columns));
    add("ITEMS", byte_items(columns));
    add("FROM_HALVES", codes ? 1 : 0);
    add("MATRIX_UNIT", target_->device->info().has_matrix_unit() ? 1 : 0);
    MILLRACE_ASSIGN(const Program built, target_->device->build(program));
    MILLRACE_ASSIGN(kernel, target_->device->kernel(built, "quantize_bytes"));
  }
  return {};
}

Status ByteRows::run(const BytesCall& call) {
  const std::uint32_t stride =
      call.codes ? target_->code_stride(call.columns) : input_stride(call.columns);
  return target_->device->launch(kernels_.at({call.columns, call.codes}),
                                 {.groups = {call.tokens}, .local = {byte_items(call.columns)}},
                                 {call.from, call.out, stride});
}

}  // namespace millrace::engine
