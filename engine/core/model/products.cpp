// The matrix products of Operations, alone and together with the norm before and the gate after
// them.
#include <algorithm>

#include "engine/core/model/operations.hpp"
#include "engine/core/model/product_program.hpp"

namespace millrace::engine {
namespace {

std::uint32_t mode_of(const Projection& projection, Accumulate accumulate) {
  return (accumulate == Accumulate::add ? 1u : 0u) | (projection.bias ? 2u : 0u);
}

}  // namespace

Forms Operations::inputs_of(const Projection& projection) const {
  Forms forms;
  for (const WeightRun& run : projection.runs) {
    (is_integer(run.format) ? forms.codes : forms.rows) = true;
  }
  return forms;
}

Status Operations::prepare_product(const Projection& projection) {
  for (const WeightRun& run : projection.runs) {
    const PanelLayout layout{run.format, projection.columns};
    const std::pair key{run.format, layout.k()};
    if (products_.contains(key)) continue;
    MILLRACE_ASSIGN(products_[key], build_product(layout));
  }
  return {};
}

Result<Operations::Product> Operations::build_product(const PanelLayout& layout) {
  const Inputs inputs = is_integer(layout.format) ? Inputs::codes : Inputs::rows;
  ProgramSpec program = product_program(*device_, layout, inputs, tuning_);
  const bool gated = inputs == Inputs::codes && device_->family() == Family::cpu;
  if (gated) program.defines.push_back(gate_define());
  MILLRACE_ASSIGN(const Program built, device_->build(program));
  Product product;
  MILLRACE_ASSIGN(product.plain, device_->kernel(built, "matmul"));
  if (!gated) return product;
  MILLRACE_ASSIGN(product.gate_up, device_->kernel(built, "gate_up"));
  MILLRACE_TRY(reserve_sums());
  return product;
}

// Allocates the counters by which groups claim chunks, and for each group the sums of gate and up
// of as many columns as kernels/matmul/integer_tiles.cl activates together.
Status Operations::reserve_sums() {
  if (sums_) return {};
  constexpr std::uint64_t strip_floats = 32 * 64;
  const std::uint64_t bytes = strip_floats * sizeof(float) * device_->info().compute_units;
  MILLRACE_ASSIGN(sums_, device_->allocate_zeroed(bytes, "the sums of gate and up"));
  MILLRACE_ASSIGN(claims_, device_->allocate_zeroed(2 * 4, "the chunks of products"));
  return {};
}

Operations::Product& Operations::product_of(const WeightRun& run, const Projection& projection) {
  return products_.at({run.format, PanelLayout{run.format, projection.columns}.k()});
}

bool Operations::is_fusable(const Projection& projection) const {
  return device_->family() == Family::cpu && projection.runs.size() == 1 &&
         is_integer(projection.runs[0].format);
}

Status Operations::project(const Projection& projection, const Activation& x, std::uint32_t columns,
                           const Buffer& out, std::uint32_t out_stride, Accumulate accumulate) {
  const std::uint32_t mode = mode_of(projection, accumulate);
  for (const WeightRun& run : projection.runs) {
    MILLRACE_TRY(run_product(run, projection, x, columns, out, out_stride, mode));
  }
  return {};
}

Status Operations::run_product(const WeightRun& run, const Projection& projection,
                               const Activation& x, std::uint32_t columns, const Buffer& out,
                               std::uint32_t out_stride, std::uint32_t mode) {
  Kernel& kernel = product_of(run, projection).plain;
  const bool cpu = device_->family() == Family::cpu;
  const std::uint32_t cores = device_->info().compute_units;
  if (is_integer(run.format)) {
    if (cpu) {
      return device_->launch(kernel, {.groups = {cores}},
                             {run.buffer, x.codes, out, projection.bias, run.panels, columns,
                              out_stride, run.first_row, mode, claims_});
    }
    return device_->launch(kernel, generic_product_grid(run.panels, columns),
                           {run.buffer, x.codes, out, projection.bias, run.panels, columns,
                            out_stride, run.first_row, mode});
  }
  Grid grid = generic_product_grid(run.panels, columns);
  if (cpu) {
    // Launch enough groups that a late thread finds work, but no more than there are units of
    // panels that a tile takes at once.
    const std::uint32_t unit = columns <= 4 ? 4 : 1, units = (run.panels + unit - 1) / unit;
    grid = {.groups = {std::clamp(units, 1u, tuning_.product_groups * cores)}, .local = {}};
  }
  return device_->launch(kernel, grid,
                         {run.buffer, x.rows, out, projection.bias, run.panels, columns,
                          input_stride(projection.columns), out_stride, run.first_row, mode});
}

Status Operations::gated(const Activation& x, const Projection& projection, const Buffer& gate_up,
                         const Activation& out, Forms forms, std::uint32_t tokens) {
  const std::uint32_t width = projection.first[1];  // of the gate, rounded up to 16
  const bool whole = width % block_columns == 0 && !forms.rows;
  if (!is_fusable(projection) || !whole) {
    MILLRACE_TRY(project(projection, x, tokens, gate_up, projection.rows, Accumulate::replace));
    return gated_mul(gate_up, out, forms, width, tokens);
  }
  const WeightRun& run = projection.runs[0];
  return device_->launch(
      product_of(run, projection).gate_up, {.groups = {device_->info().compute_units}},
      {run.buffer, x.codes, sums_, out.codes, projection.bias, run.panels, tokens,
       code_stride(width), mode_of(projection, Accumulate::replace), claims_});
}

}  // namespace millrace::engine
