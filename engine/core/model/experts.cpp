#include "engine/core/model/experts.hpp"

#include <utility>

#include "engine/core/model/program_text.hpp"

namespace millrace::engine {
namespace {

// Flags of kernels/experts/route.cl.
constexpr std::uint32_t route_bias = 1, route_normalized = 2, route_direct = 4;

}  // namespace

Experts::Experts(Backend& backend, const ExpertsSpec& spec, Gate gate, std::uint32_t direct_tokens)
    : backend_(&backend),
      device_(backend.target().device),
      spec_(spec),
      gate_(gate),
      width_(backend.target().spec.width),
      direct_tokens_(direct_tokens),
      products_(backend.experts(spec, gate)) {}

Forms Experts::inputs_of(const ExpertWeights& weights) const {
  return backend_->inputs_of(weights.gate_up) | Forms{.rows = true};
}

Grid Experts::rows_grid(std::uint32_t rows) const {
  return {.groups = {rows}, .local = {device_->row_items()}};
}

// Allocates what a step of so many tokens needs. The driver keeps the old buffers until their
// commands are done.
Status Experts::reserve(std::uint32_t tokens) {
  if (scratch_.tokens >= tokens) return {};
  Scratch room;
  room.tokens = tokens;
  const std::uint64_t word = 4, slots = std::uint64_t{tokens} * spec_.used;
  const auto allocate = [&](Buffer& buffer, std::uint64_t words, const char* what) -> Status {
    MILLRACE_ASSIGN(buffer, device_->allocate_zeroed(words * word, what));
    return {};
  };
  const auto activation = [&](Activation& to, Forms forms, std::uint32_t columns,
                              const char* what) -> Status {
    const std::uint64_t rows = slots + input_slack_rows;
    if (forms.rows) MILLRACE_TRY(allocate(to.rows, rows * input_stride(columns), what));
    if (forms.codes) MILLRACE_TRY(allocate(to.codes, rows * code_stride(columns), what));
    return {};
  };
  MILLRACE_TRY(allocate(room.logits, std::uint64_t{tokens} * needs_.router_rows, "router logits"));
  MILLRACE_TRY(allocate(room.weights, slots + tokens, "the weights of experts"));
  MILLRACE_TRY(allocate(room.chosen, slots, "chosen experts"));
  MILLRACE_TRY(allocate(room.runs, 4 + 4 * slots, "runs of experts"));
  MILLRACE_TRY(allocate(room.slots, 2 * slots, "slots of experts"));
  MILLRACE_TRY(allocate(room.places, slots, "places of experts"));
  MILLRACE_TRY(allocate(room.cursors, spec_.count, "cursors of experts"));
  MILLRACE_TRY(activation(room.sorted, needs_.sorted, width_, "the experts' input"));
  MILLRACE_TRY(
      activation(room.activated, needs_.activated, spec_.width, "the experts' activation"));
  if (needs_.gate_up) {
    const std::uint64_t rows = 2 * round_up(spec_.width, panel_rows);
    MILLRACE_TRY(allocate(room.gate_up, slots * rows, "the experts' gate and up"));
  }
  MILLRACE_TRY(allocate(room.down, slots * round_up(width_, panel_rows), "the experts' output"));
  scratch_ = std::move(room);
  return {};
}

Status Experts::route(const ExpertWeights& weights, const ExpertsInput& in) {
  const Projection& router = weights.router;
  const std::uint32_t tokens = in.tokens;
  MILLRACE_TRY(backend_->project({.matrix = router,
                                  .x = in.x,
                                  .columns = tokens,
                                  .out = scratch_.logits,
                                  .out_stride = router.rows},
                                 MathMode::exact));
  const std::uint32_t flags = (weights.selection_bias ? route_bias : 0) |
                              (spec_.normalized ? route_normalized : 0) |
                              (tokens <= direct_tokens_ ? route_direct : 0);
  return device_->launch(route_, {.groups = {tokens}, .local = {}},
                         {scratch_.logits, weights.selection_bias, scratch_.weights,
                          scratch_.chosen, scratch_.runs, scratch_.slots, scratch_.places,
                          router.rows, spec_.used, static_cast<std::uint32_t>(spec_.router), flags,
                          spec_.groups, spec_.groups_used, weights.shared_gate_row, spec_.scale});
}

// Sorts the choices by expert, and their rows of x in `forms`, for tiles of several columns.
Status Experts::sort(const ExpertsInput& in, Forms forms) {
  const std::uint32_t slots = in.tokens * spec_.used;
  MILLRACE_TRY(device_->launch(sort_, rows_grid(1),
                               {scratch_.chosen, scratch_.runs, scratch_.slots, scratch_.places,
                                scratch_.cursors, slots, spec_.used}));
  constexpr std::uint32_t vector_words = 16;
  if (forms.rows) {
    MILLRACE_TRY(device_->launch(
        gather_, rows_grid(slots),
        {in.x.rows, scratch_.slots, scratch_.sorted.rows, input_stride(width_) / vector_words}));
  }
  if (!forms.codes) return {};
  return device_->launch(
      gather_, rows_grid(slots),
      {in.x.codes, scratch_.slots, scratch_.sorted.codes, code_stride(width_) / vector_words});
}

Status Experts::run_gate_up(const ExpertWeights& weights, const ExpertsInput& in) {
  const std::uint32_t slots = in.tokens * spec_.used;
  const ExpertsCall call{.x = in.x,
                         .by_token = true,
                         .sorted = scratch_.sorted,
                         .runs = scratch_.runs,
                         .slots = scratch_.slots,
                         .slot_count = slots};
  if (products_->fuses_gate(weights)) {
    return products_->gated(weights, call, scratch_.activated.codes);
  }
  MILLRACE_TRY(products_->run(weights.gate_up, call, scratch_.gate_up));
  const Forms forms = backend_->inputs_of(weights.down);
  if (forms.rows) {
    MILLRACE_TRY(device_->launch(
        activate_, rows_grid(slots),
        {scratch_.gate_up, scratch_.activated.rows, round_up(spec_.width, panel_rows) / panel_rows,
         input_stride(spec_.width)}));
  }
  if (!forms.codes) return {};
  return device_->launch(activate_quantize_, rows_grid(slots),
                         {scratch_.gate_up, scratch_.activated.codes, spec_.width / block_columns,
                          code_stride(spec_.width)});
}

Status Experts::combine(const ExpertWeights& weights, const ExpertsInput& in,
                        const ExpertsOutput& out) {
  const std::uint32_t mode = (out.accumulate == Accumulate::add ? 1u : 0u) | (in.shared ? 2u : 0u);
  return device_->launch(combine_, rows_grid(in.tokens),
                         {scratch_.down, scratch_.weights, scratch_.places, in.shared, out.rows,
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
  if (in.tokens > direct_tokens_) MILLRACE_TRY(sort(in, products_->gathered(weights.gate_up)));
  MILLRACE_TRY(run_gate_up(weights, in));
  const ExpertsCall down{.x = scratch_.activated,
                         .by_token = false,
                         .sorted = scratch_.activated,
                         .runs = scratch_.runs,
                         .slots = scratch_.slots,
                         .slot_count = in.tokens * spec_.used};
  MILLRACE_TRY(products_->run(weights.down, down, scratch_.down));
  return combine(weights, in, out);
}

}  // namespace millrace::engine
