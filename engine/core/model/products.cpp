// The matrix products of Operations, alone and with what comes before and after them.
#include <algorithm>

#include "engine/core/model/operations.hpp"
#include "engine/core/model/program_text.hpp"

namespace millrace::engine {
namespace {

constexpr std::uint32_t pair_panels = 2, gate_up_panels = 4;

std::uint32_t mode_of(const Projection& projection, Accumulate accumulate) {
  return (accumulate == Accumulate::add ? 1u : 0u) | (projection.bias ? 2u : 0u);
}

std::uint32_t groups_for(std::uint32_t units, std::uint32_t most) {
  return std::max(1u, std::min(units, most));
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
    if (is_integer(run.format)) {
      MILLRACE_ASSIGN(products_[key], build_integer_product(layout));
    } else {
      MILLRACE_ASSIGN(products_[key].plain, build_exact_product(layout));
    }
  }
  return {};
}

Result<Kernel> Operations::build_exact_product(const PanelLayout& layout) {
  ProgramSpec program{.name = "matmul", .sources = {"matmul/layout.cl"}};
  if (device_->family() == Family::cpu) program.sources.emplace_back("kv/vectors.cl");
  program.sources.push_back(variant_of("matmul/exact_", device_->family()));
  program.defines = layout.defines();
  program.defines.push_back(define("X_STRIDE", input_stride(layout.columns)));
  program.defines.push_back(define("TILE", tuning_.float_tile));
  MILLRACE_ASSIGN(const Program built, device_->build(program));
  return device_->kernel(built, "matmul");
}

Result<Operations::Product> Operations::build_integer_product(const PanelLayout& layout) {
  const bool cpu = device_->family() == Family::cpu;
  ProgramSpec program{.name = "integer_matmul",
                      .sources = {"quantize/block.cl", "matmul/layout.cl"},
                      .defines = layout.defines()};
  if (cpu) {
    program.sources.insert(program.sources.end(), {"activation/silu.cl", "kv/vectors.cl",
                                                   "matmul/dot.cl", "matmul/integer_tiles.cl"});
  }
  program.sources.push_back(variant_of("matmul/integer_", device_->family()));
  program.defines.push_back(define("X_STRIDE", code_stride(layout.columns)));
  program.defines.push_back(define("DOT", static_cast<std::uint64_t>(device_->dot())));
  program.defines.push_back(define("TILE", tuning_.integer_tile));
  MILLRACE_ASSIGN(const Program built, device_->build(program));
  Product product;
  MILLRACE_ASSIGN(product.plain, device_->kernel(built, "matmul"));
  if (!cpu) return product;
  MILLRACE_ASSIGN(product.gate_up, device_->kernel(built, "gate_up"));
  MILLRACE_TRY(reserve_sums());
  return product;
}

// A tile's sums of gate and up for every group that there may be.
Status Operations::reserve_sums() {
  const std::uint64_t bytes =
      std::uint64_t{tuning_.integer_tile} * 64 * sizeof(float) * most_groups();
  if (sums_.size_bytes() >= bytes) return {};
  MILLRACE_ASSIGN(sums_, device_->allocate_zeroed(bytes, "the sums of gate and up"));
  return {};
}

std::uint32_t Operations::most_groups() const {
  return tuning_.product_groups * device_->info().compute_units;
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
  const bool integer = is_integer(run.format);
  Grid grid{.groups = {run.panels, columns}, .local = {panel_rows}};
  if (device_->family() == Family::cpu) {
    // Enough groups that a late thread finds work; whole units of the panels that tiles take at
    // once.
    const std::uint32_t unit = integer ? pair_panels : columns <= 4 ? 4 : 1;
    grid = {.groups = {groups_for((run.panels + unit - 1) / unit, most_groups())}, .local = {}};
  }
  if (integer) {
    return device_->launch(kernel, grid,
                           {run.buffer, x.codes, out, projection.bias, run.panels, columns,
                            out_stride, run.first_row, mode});
  }
  return device_->launch(kernel, grid,
                         {run.buffer, x.rows, out, projection.bias, run.panels, columns,
                          input_stride(projection.columns), out_stride, run.first_row, mode});
}

Status Operations::norm_project(const Normed& x, const Projection& projection, const Buffer& out,
                                const StepTable& step, const Buffer& step_words) {
  MILLRACE_TRY(norm(x.rows, x.weight, x.normed, inputs_of(projection), step, step_words, false));
  return project(projection, x.normed, step.tokens, out, projection.rows, Accumulate::replace);
}

Status Operations::norm_gate_up(const Normed& x, const Projection& projection,
                                const Buffer& gate_up, const Activation& out, Forms forms,
                                const StepTable& step, const Buffer& step_words) {
  const bool whole = spec_.ffn_width % block_columns == 0 && !forms.rows;
  if (!is_fusable(projection) || !whole) {
    MILLRACE_TRY(norm_project(x, projection, gate_up, step, step_words));
    return silu(gate_up, out, forms, step.tokens);
  }
  MILLRACE_TRY(norm(x.rows, x.weight, x.normed, inputs_of(projection), step, step_words, false));
  const WeightRun& run = projection.runs[0];
  const Grid grid{.groups = {groups_for(run.panels / gate_up_panels, most_groups())}};
  return device_->launch(
      product_of(run, projection).gate_up, grid,
      {run.buffer, x.normed.codes, sums_, out.codes, projection.bias, run.panels, step.tokens,
       code_stride(spec_.ffn_width), mode_of(projection, Accumulate::replace)});
}

}  // namespace millrace::engine
