// The programs of Experts, compiled for its shapes, formats and gate function.
#include <algorithm>
#include <array>
#include <utility>

#include "engine/core/model/experts.hpp"
#include "engine/core/model/product_program.hpp"
#include "engine/core/model/program_text.hpp"

namespace millrace::engine {
namespace {

std::string gate_define(Gate gate) {
  return define("GATE", static_cast<std::uint64_t>(gate));
}

std::string row_items(const Device& device) {
  return define("ROW_ITEMS", device.family() == Family::cpu ? 1 : 32);
}

}  // namespace

Experts::ProductKey Experts::key_of(const PanelFormat& format, std::uint32_t columns,
                                    bool gated) const {
  return {format, PanelLayout{format, columns}.k(), gated};
}

Status Experts::prepare(const ExpertWeights& weights) {
  const bool fused = is_fused(weights);
  if (!route_) MILLRACE_TRY(prepare_routing());
  MILLRACE_TRY(prepare_router(weights.router));
  MILLRACE_TRY(prepare_matrix(weights.gate_up, fused));
  MILLRACE_TRY(prepare_matrix(weights.down, false));
  if (!fused && !activate_) MILLRACE_TRY(prepare_activation());
  needs_.sorted |= is_cpu() ? inputs_of(weights.gate_up) : Forms{};
  needs_.activated |= inputs_of(weights.down);
  needs_.gate_up |= !fused;
  needs_.router_rows = std::max(needs_.router_rows, weights.router.rows);
  scratch_ = {};  // the next run allocates what this layer needs, too
  return {};
}

Status Experts::prepare_routing() {
  MILLRACE_ASSIGN(
      const Program program,
      device_->build({.name = "experts",
                      .sources = {"experts/route.cl", "experts/sort.cl"},
                      .defines = {define("EXPERTS", spec_.count), row_items(*device_)}}));
  MILLRACE_ASSIGN(route_, device_->kernel(program, "route"));
  MILLRACE_ASSIGN(sort_, device_->kernel(program, "sort_choices"));
  MILLRACE_ASSIGN(gather_, device_->kernel(program, "gather_rows"));
  MILLRACE_ASSIGN(combine_, device_->kernel(program, "combine"));
  if (!is_cpu()) return {};
  // For each group, the sums of gate and up of as many columns as kernels/matmul/integer_tiles.cl
  // activates together.
  constexpr std::uint64_t strip_floats = 32 * 64;
  const std::uint64_t bytes = strip_floats * sizeof(float) * device_->info().compute_units;
  MILLRACE_ASSIGN(sums_, device_->allocate_zeroed(bytes, "the sums of gate and up"));
  MILLRACE_ASSIGN(claims_, device_->allocate_zeroed(2 * 4, "the chunks of experts"));
  return {};
}

Status Experts::prepare_activation() {
  MILLRACE_ASSIGN(const Program program,
                  device_->build({.name = "experts_activation",
                                  .sources = {"quantize/quantize.cl"},
                                  .defines = {row_items(*device_), gate_define(gate_)}}));
  MILLRACE_ASSIGN(activate_, device_->kernel(program, "gated_mul"));
  MILLRACE_ASSIGN(activate_quantize_, device_->kernel(program, "gated_mul_quantize"));
  return {};
}

// The router's product is exact in math fast, too: a rounded logit may change a choice.
Status Experts::prepare_router(const Projection& router) {
  for (const WeightRun& run : router.runs) {
    if (routers_.contains(run.format)) continue;
    MILLRACE_ASSIGN(const Program program,
                    device_->build(product_program(*device_, {run.format, router.columns},
                                                   Inputs::rows, tuning_)));
    MILLRACE_ASSIGN(routers_[run.format], device_->kernel(program, "matmul"));
  }
  return {};
}

Status Experts::prepare_matrix(const ExpertMatrix& matrix, bool gated) {
  for (const ExpertRun& run : matrix.runs) {
    const ProductKey key = key_of(run.format, matrix.columns, gated);
    if (products_.contains(key)) continue;
    MILLRACE_ASSIGN(products_[key], build_product({run.format, matrix.columns}, gated));
  }
  return {};
}

Result<Experts::Product> Experts::build_product(const PanelLayout& layout, bool gated) {
  const bool integers = is_integer(layout.format);
  ProgramSpec program =
      product_program(*device_, layout, integers ? Inputs::codes : Inputs::rows, tuning_);
  program.name = "experts_matmul";
  program.sources = {
      variant_of(integers ? "experts/integer_" : "experts/exact_", device_->family())};
  if (gated) program.defines.push_back(gate_define(gate_));
  if (!integers && !is_cpu()) {
    program.defines.push_back(define("X_STRIDE", input_stride(layout.columns)));
  }
  MILLRACE_ASSIGN(const Program built, device_->build(program));
  Product product;
  MILLRACE_ASSIGN(product.plain, device_->kernel(built, "experts_matmul"));
  if (!gated) return product;
  MILLRACE_ASSIGN(product.gate_up, device_->kernel(built, "experts_gate_up"));
  return product;
}

}  // namespace millrace::engine
