#include "engine/core/model/experts.hpp"

#include <bit>
#include <utility>

#include "engine/core/model/program_text.hpp"
#include "kernels/experts/table.h"

namespace millrace::engine {

Experts::Experts(Backend& backend, const ExpertsSpec& spec, Gate gate, std::uint32_t direct_tokens)
    : backend_(&backend),
      device_(backend.target().device),
      spec_(spec),
      gate_(gate),
      width_(backend.target().spec.width),
      direct_tokens_(direct_tokens),
      products_(backend.experts(spec, gate)) {}

Forms Experts::inputs_of(const ExpertWeights& weights) const {
  return backend_->inputs_of(weights.gate_up) | Forms{.rows = !spec_.router_norm};
}

Grid Experts::rows_grid(std::uint32_t rows) const {
  return {.groups = {rows}, .local = {device_->row_items()}};
}

// Allocates what a step of so many tokens needs. A launch of whole layers reads this memory by its
// address, so nothing may run when it is replaced; doubling makes that rare.
Status Experts::reserve(std::uint32_t needed) {
  if (memory_.tokens >= needed) return {};
  MILLRACE_TRY(device_->finish());
  const std::uint32_t tokens = std::bit_ceil(needed);
  ExpertsMemory room;
  room.tokens = tokens;
  const std::uint64_t word = 4, choices = std::uint64_t{tokens} * spec_.used;
  const std::uint64_t slots = products_->slots_for(choices);
  const auto allocate = [&](Buffer& buffer, std::uint64_t words, const char* what) -> Status {
    MILLRACE_ASSIGN(buffer, device_->allocate_zeroed(words * word, what));
    return {};
  };
  const auto activation = [&](Activation& to, Forms forms, std::uint32_t columns,
                              const char* what) -> Status {
    const std::uint64_t rows = slots + input_slack_rows;
    if (forms.rows) MILLRACE_TRY(allocate(to.rows, rows * input_stride(columns), what));
    if (forms.codes) MILLRACE_TRY(allocate(to.codes, target().code_words(columns, slots), what));
    return {};
  };
  MILLRACE_TRY(allocate(room.logits, std::uint64_t{tokens} * needs_.router_rows, "router logits"));
  MILLRACE_TRY(allocate(room.weights, choices + tokens, "the weights of experts"));
  MILLRACE_TRY(allocate(room.chosen, choices, "chosen experts"));
  MILLRACE_TRY(allocate(room.runs, RUNS_WORDS_OF(slots), "runs of experts"));
  MILLRACE_TRY(allocate(room.slots, 2 * slots, "slots of experts"));
  MILLRACE_TRY(allocate(room.places, choices, "places of experts"));
  MILLRACE_TRY(allocate(room.cursors, spec_.count, "cursors of experts"));
  MILLRACE_TRY(activation(room.sorted, needs_.sorted, width_, "the experts' input"));
  MILLRACE_TRY(
      activation(room.activated, needs_.activated, spec_.width, "the experts' activation"));
  if (needs_.gate_up) {
    const std::uint64_t rows = (has_gate(gate_) ? 2 : 1) * round_up(spec_.width, panel_rows);
    MILLRACE_TRY(allocate(room.gate_up, slots * rows, "the experts' gate and up"));
  }
  MILLRACE_TRY(allocate(room.down, slots * round_up(width_, panel_rows), "the experts' output"));
  room.generation = ++generations_;
  memory_ = std::move(room);
  return {};
}

Result<const ExpertsMemory*> Experts::memory(std::uint32_t tokens) {
  MILLRACE_TRY(reserve(tokens));
  return &memory_;
}

std::uint32_t Experts::route_flags(const ExpertWeights& weights) const {
  return (weights.selection_bias ? ROUTE_BIAS : 0u) | (spec_.normalized ? ROUTE_NORMALIZED : 0u);
}

Status Experts::route(const ExpertWeights& weights, const ExpertsInput& in) {
  const Projection& router = weights.router;
  const std::uint32_t tokens = in.tokens;
  MILLRACE_TRY(backend_->project({.matrix = router,
                                  .x = in.routed != nullptr ? *in.routed : in.x,
                                  .columns = tokens,
                                  .out = memory_.logits,
                                  .out_stride = router.rows},
                                 MathMode::exact));
  const bool direct = tokens <= direct_tokens_ && !products_->groups(weights);
  const std::uint32_t flags = route_flags(weights) | (direct ? ROUTE_DIRECT : 0u);
  return device_->launch(
      route_, {.groups = {tokens}, .local = {route_items_}},
      {memory_.logits, weights.selection_bias, memory_.weights, memory_.chosen, memory_.runs,
       memory_.slots, memory_.places, router.rows, spec_.used,
       static_cast<std::uint32_t>(spec_.router), flags, spec_.groups, spec_.groups_used,
       weights.shared_gate_row, spec_.scale, weights.expert_factors});
}

// Sorts the choices by expert, and their rows of x, for tiles of several columns.
Status Experts::sort(const ExpertWeights& weights, const ExpertsInput& in) {
  if (products_->groups(weights)) {
    return products_->group({.chosen = memory_.chosen,
                             .x = in.x,
                             .sorted = memory_.sorted,
                             .places = memory_.places,
                             .scratch = memory_.slots,
                             .tokens = in.tokens});
  }
  if (in.tokens <= direct_tokens_) return {};
  const Forms forms = products_->gathered(weights.gate_up);
  const std::uint32_t slots = in.tokens * spec_.used;
  MILLRACE_TRY(device_->launch(sort_, rows_grid(1),
                               {memory_.chosen, memory_.runs, memory_.slots, memory_.places,
                                memory_.cursors, slots, spec_.used}));
  constexpr std::uint32_t vector_words = 16;
  if (forms.rows) {
    MILLRACE_TRY(device_->launch(
        gather_, rows_grid(slots),
        {in.x.rows, memory_.slots, memory_.sorted.rows, input_stride(width_) / vector_words}));
  }
  if (!forms.codes) return {};
  return device_->launch(gather_, rows_grid(slots),
                         {in.x.codes, memory_.slots, memory_.sorted.codes,
                          target().code_stride(width_) / vector_words});
}

Status Experts::run_gate_up(const ExpertWeights& weights, const ExpertsInput& in) {
  const std::uint32_t slots = in.tokens * spec_.used;
  const ExpertsCall call{.x = in.x,
                         .by_token = true,
                         .sorted = memory_.sorted,
                         .runs = memory_.runs,
                         .slots = memory_.slots,
                         .slot_count = slots,
                         .grouped = products_->groups(weights)};
  if (products_->fuses_gate(weights)) {
    return products_->gated(weights, call, memory_.activated.codes);
  }
  MILLRACE_TRY(products_->run(weights.gate_up, call, memory_.gate_up));
  const Forms forms = backend_->inputs_of(weights.down);
  if (forms.rows) {
    MILLRACE_TRY(device_->launch(
        activate_, rows_grid(slots),
        {memory_.gate_up, memory_.activated.rows, round_up(spec_.width, panel_rows) / panel_rows,
         input_stride(spec_.width)}));
  }
  if (!forms.codes) return {};
  return device_->launch(activate_quantize_, rows_grid(slots),
                         {memory_.gate_up, memory_.activated.codes, spec_.width / block_columns,
                          target().code_stride(spec_.width)});
}

Status Experts::combine(const ExpertWeights& weights, const ExpertsInput& in,
                        const ExpertsOutput& out) {
  const std::uint32_t mode =
      (out.accumulate == Accumulate::add ? COMBINE_ADDS : 0u) | (in.shared ? COMBINE_SHARED : 0u);
  return device_->launch(combine_, {.groups = {in.tokens}, .local = {combine_items_}},
                         {memory_.down, memory_.weights, memory_.places, in.shared, out.rows,
                          spec_.used, round_up(width_, panel_rows) / panel_rows, weights.down.rows,
                          in.shared_stride, input_stride(width_), mode, out.scale});
}

Status Experts::run(const ExpertWeights& weights, const ExpertsInput& in,
                    const ExpertsOutput& out) {
  if ((spec_.shared_width > 0) != static_cast<bool>(in.shared)) {
    return fail(Code::internal, "the rows of the shared expert and the spec of the experts differ");
  }
  MILLRACE_TRY(reserve(in.tokens));
  MILLRACE_TRY(route(weights, in));
  MILLRACE_TRY(sort(weights, in));
  MILLRACE_TRY(run_gate_up(weights, in));
  const ExpertsCall down{.x = memory_.activated,
                         .by_token = false,
                         .sorted = memory_.activated,
                         .runs = memory_.runs,
                         .slots = memory_.slots,
                         .slot_count = in.tokens * spec_.used,
                         .grouped = products_->groups(weights)};
  MILLRACE_TRY(products_->run(weights.down, down, memory_.down));
  return combine(weights, in, out);
}

}  // namespace millrace::engine
