// The matrix products of Operations, alone and with what comes before and after them.
#include <algorithm>

#include "engine/core/model/operations.hpp"
#include "engine/core/model/program_text.hpp"

namespace millrace::engine {
namespace {

// Up to so many columns every group computes the norm before a product for itself, with few groups:
// beyond, one launch for all is cheaper.
constexpr std::uint32_t front_columns = 4;
constexpr std::uint32_t front_groups_each_core = 2;

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
    program.sources.insert(program.sources.end(),
                           {"norm/rms.cl", "activation/silu.cl", "quantize/norm.cl",
                            "kv/vectors.cl", "matmul/dot.cl"});
  }
  program.sources.push_back(variant_of("matmul/integer_", device_->family()));
  program.defines.push_back(define("X_STRIDE", code_stride(layout.columns)));
  program.defines.push_back(define("DOT", static_cast<std::uint64_t>(device_->dot())));
  program.defines.push_back(define("TILE", tuning_.integer_tile));
  program.defines.push_back(define("FRONT_COLUMNS", front_columns));
  MILLRACE_ASSIGN(const Program built, device_->build(program));
  Product product;
  MILLRACE_ASSIGN(product.plain, device_->kernel(built, "matmul"));
  if (!cpu) return product;
  MILLRACE_ASSIGN(product.norm, device_->kernel(built, "norm_matmul"));
  MILLRACE_ASSIGN(product.gate_up, device_->kernel(built, "gate_up"));
  MILLRACE_ASSIGN(product.norm_gate_up, device_->kernel(built, "norm_gate_up"));
  // mr_own_sums of every group that there may be, mr_own_rows of those with a norm in front.
  const std::uint64_t words =
      std::uint64_t{tuning_.integer_tile} * 64 * most_groups() +
      std::uint64_t{front_columns} * code_stride(layout.columns) * front_groups();
  if (scratch_.size_bytes() < words * sizeof(std::uint32_t)) {
    MILLRACE_ASSIGN(scratch_, device_->allocate_zeroed(words * sizeof(std::uint32_t),
                                                       "the products' own memory"));
  }
  return product;
}

std::uint32_t Operations::front_groups() const {
  return front_groups_each_core * device_->info().compute_units;
}

std::uint32_t Operations::most_groups() const {
  return std::max(tuning_.product_groups * device_->info().compute_units, front_groups());
}

Operations::Product& Operations::product_of(const WeightRun& run, const Projection& projection) {
  return products_.at({run.format, PanelLayout{run.format, projection.columns}.k()});
}

bool Operations::is_fusable(const Projection& projection) const {
  return device_->family() == Family::cpu && projection.runs.size() == 1 &&
         is_integer(projection.runs[0].format);
}

bool Operations::has_front(std::uint32_t columns) const {
  return columns <= std::min(front_columns, tuning_.integer_tile);
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
  const std::uint32_t columns = step.tokens;
  if (!is_fusable(projection) || !has_front(columns)) {
    MILLRACE_TRY(norm(x.rows, x.weight, x.normed, inputs_of(projection), step, step_words, false));
    return project(projection, x.normed, columns, out, projection.rows, Accumulate::replace);
  }
  const WeightRun& run = projection.runs[0];
  const std::uint32_t pairs = (run.panels + pair_panels - 1) / pair_panels;
  const Grid grid{.groups = {groups_for(pairs, front_groups())}};
  return device_->launch(
      product_of(run, projection).norm, grid,
      {run.buffer, x.rows, x.weight, scratch_, out, projection.bias, run.panels, columns,
       input_stride(projection.columns), projection.rows, run.first_row,
       mode_of(projection, Accumulate::replace), inverse_width(), spec_.norm_epsilon});
}

Status Operations::norm_gate_up(const Normed& x, const Projection& projection,
                                const Buffer& gate_up, const Activation& out, Forms forms,
                                const StepTable& step, const Buffer& step_words) {
  const std::uint32_t columns = step.tokens;
  const bool whole = spec_.ffn_width % block_columns == 0 && !forms.rows;
  if (!is_fusable(projection) || !whole) {
    MILLRACE_TRY(norm_project(x, projection, gate_up, step, step_words));
    return silu(gate_up, out, forms, columns);
  }
  const WeightRun& run = projection.runs[0];
  Product& product = product_of(run, projection);
  const std::uint32_t mode = mode_of(projection, Accumulate::replace);
  const std::uint32_t blocks = run.panels / gate_up_panels, stride = code_stride(spec_.ffn_width);
  if (has_front(columns)) {
    const Grid grid{.groups = {groups_for(blocks, front_groups())}};
    return device_->launch(
        product.norm_gate_up, grid,
        {run.buffer, x.rows, x.weight, scratch_, out.codes, projection.bias, run.panels, columns,
         input_stride(projection.columns), stride, mode, inverse_width(), spec_.norm_epsilon});
  }
  MILLRACE_TRY(norm(x.rows, x.weight, x.normed, inputs_of(projection), step, step_words, false));
  return device_->launch(product.gate_up, {.groups = {groups_for(blocks, most_groups())}},
                         {run.buffer, x.normed.codes, scratch_, out.codes, projection.bias,
                          run.panels, columns, stride, mode});
}

}  // namespace millrace::engine
