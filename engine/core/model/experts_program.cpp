// The programs of Experts besides products, compiled for its shapes and gate function.
#include <algorithm>

#include "engine/core/model/experts.hpp"
#include "engine/core/model/program_text.hpp"

namespace millrace::engine {

Status Experts::prepare(const ExpertWeights& weights) {
  const bool fused = products_->fuses_gate(weights);
  if (!route_) MILLRACE_TRY(prepare_routing());
  // The router's product is exact in math fast, too: a rounded logit may change a choice.
  MILLRACE_TRY(backend_->prepare_product(weights.router, MathMode::exact));
  MILLRACE_TRY(products_->prepare(weights));
  if (!fused && !activate_) MILLRACE_TRY(prepare_activation());
  needs_.sorted |= products_->gathered(weights.gate_up);
  needs_.activated |= backend_->inputs_of(weights.down);
  needs_.gate_up |= !fused;
  needs_.router_rows = std::max(needs_.router_rows, weights.router.rows);
  memory_ = {};  // the next run allocates what this layer needs, too
  return {};
}

std::string Experts::row_items() const {
  return define("ROW_ITEMS", device_->row_items());
}

Status Experts::prepare_routing() {
  MILLRACE_ASSIGN(const Program program,
                  device_->build({.name = "experts",
                                  .sources = {"experts/route.cl", "experts/sort.cl"},
                                  .defines = {define("EXPERTS", spec_.count), row_items()}}));
  MILLRACE_ASSIGN(route_, device_->kernel(program, "route"));
  MILLRACE_ASSIGN(sort_, device_->kernel(program, "sort_choices"));
  MILLRACE_ASSIGN(gather_, device_->kernel(program, "gather_rows"));
  MILLRACE_ASSIGN(combine_, device_->kernel(program, "combine"));
  combine_items_ = device_->row_items();
  const auto own = products_->routing();
  if (!own) return {};
  std::vector<std::string> defines = own->defines;
  defines.push_back(define("EXPERTS", spec_.count));
  MILLRACE_ASSIGN(const Program other, device_->build({.name = "experts_rows",
                                                       .sources = {own->source},
                                                       .defines = std::move(defines)}));
  MILLRACE_ASSIGN(route_, device_->kernel(other, "route"));
  MILLRACE_ASSIGN(combine_, device_->kernel(other, "combine"));
  route_items_ = own->route_items;
  combine_items_ = own->combine_items;
  return {};
}

Status Experts::prepare_activation() {
  std::vector<std::string> defines = target().code_defines();
  defines.push_back(row_items());
  defines.push_back(define("GATE", static_cast<std::uint64_t>(gate_)));
  MILLRACE_ASSIGN(const Program program, device_->build({.name = "experts_activation",
                                                         .sources = {"quantize/quantize.cl"},
                                                         .defines = std::move(defines)}));
  MILLRACE_ASSIGN(activate_, device_->kernel(program, "gated_mul"));
  MILLRACE_ASSIGN(activate_quantize_, device_->kernel(program, "gated_mul_quantize"));
  return {};
}

}  // namespace millrace::engine
