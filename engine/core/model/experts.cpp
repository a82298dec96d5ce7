#include "engine/core/model/experts.hpp"

#include <algorithm>
#include <utility>

#include "engine/core/model/product_program.hpp"
#include "engine/core/model/program_text.hpp"

namespace millrace::engine {
namespace {

// Flags of kernels/experts/route.cl.
constexpr std::uint32_t route_bias = 1, route_normalized = 2, route_direct = 4;

}  // namespace

Experts::Experts(Device& device, MathMode math, const ExpertsSpec& spec, Gate gate,
                 std::uint32_t width, const std::optional<kernels::Tuning>& tuning,
                 std::uint32_t direct_tokens)
    : device_(&device),
      math_(math),
      spec_(spec),
      gate_(gate),
      width_(width),
      tuning_(tuning ? *tuning : kernels::tuned_for(tuning_key(device))),
      direct_tokens_(direct_tokens) {}

Forms Experts::inputs_of(const ExpertMatrix& matrix) const {
  Forms forms;
  for (const ExpertRun& run : matrix.runs) {
    (is_integer(run.format) ? forms.codes : forms.rows) = true;
  }
  return forms;
}

Forms Experts::inputs_of(const ExpertWeights& weights) const {
  return inputs_of(weights.gate_up) | Forms{.rows = true};
}

// Gate, up, activation and quantization run in one launch if all of it is in codes.
bool Experts::is_fused(const ExpertWeights& weights) const {
  const ExpertMatrix& gate_up = weights.gate_up;
  return is_cpu() && !inputs_of(gate_up).rows && !inputs_of(weights.down).rows &&
         spec_.width % block_columns == 0 && gate_up.runs[0].panels * panel_rows == gate_up.rows;
}

Grid Experts::rows_grid(std::uint32_t rows) const {
  return {.groups = {rows}, .local = {is_cpu() ? 1u : 32u}};
}

std::vector<const Buffer*> Experts::counters() const {
  if (!claims_) return {};
  return {&claims_};
}

Status Experts::clear_counters() {
  if (!claims_) return {};
  return device_->fill_zero(claims_, 0, claims_.size_bytes());
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
  const std::uint32_t tokens = in.tokens, cores = device_->info().compute_units;
  for (const WeightRun& run : router.runs) {
    // A tile of up to four columns takes four panels at once.
    const std::uint32_t unit = tokens <= 4 ? 4 : 1, units = (run.panels + unit - 1) / unit;
    const Grid grid =
        is_cpu() ? Grid{.groups = {std::min(units, tuning_.product_groups * cores)}, .local = {}}
                 : generic_product_grid(run.panels, tokens);
    MILLRACE_TRY(
        device_->launch(routers_.at(run.format), grid,
                        {run.buffer, in.x.rows, scratch_.logits, router.bias, run.panels, tokens,
                         input_stride(width_), router.rows, run.first_row, router.bias ? 2u : 0u}));
  }
  const std::uint32_t flags = (weights.selection_bias ? route_bias : 0) |
                              (spec_.normalized ? route_normalized : 0) |
                              (tokens <= direct_tokens_ ? route_direct : 0);
  return device_->launch(route_, {.groups = {tokens}, .local = {}},
                         {scratch_.logits, weights.selection_bias, scratch_.weights,
                          scratch_.chosen, scratch_.runs, scratch_.slots, scratch_.places,
                          router.rows, spec_.used, static_cast<std::uint32_t>(spec_.router), flags,
                          spec_.groups, spec_.groups_used, weights.shared_gate_row, spec_.scale});
}

// Sorts the choices by expert, and on CPUs their rows of x, for tiles of several columns.
Status Experts::sort(const ExpertsInput& in, Forms forms) {
  const std::uint32_t slots = in.tokens * spec_.used;
  MILLRACE_TRY(device_->launch(sort_, rows_grid(1),
                               {scratch_.chosen, scratch_.runs, scratch_.slots, scratch_.places,
                                scratch_.cursors, slots, spec_.used}));
  if (!is_cpu()) return {};
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

Status Experts::run_matrix(const ExpertMatrix& matrix, const Activation& x,
                           const Activation& sorted, const Buffer& out, std::uint32_t slots,
                           bool by_token) {
  const std::uint32_t mode = matrix.bias ? 2 : 0, direct = by_token ? 1 : 0;
  for (const ExpertRun& run : matrix.runs) {
    const bool integer = is_integer(run.format);
    const Buffer& from = integer ? x.codes : x.rows;
    Kernel& kernel = products_.at(key_of(run.format, matrix.columns, false)).plain;
    if (is_cpu()) {
      MILLRACE_TRY(
          device_->launch(kernel, {.groups = {device_->info().compute_units}, .local = {}},
                          {run.buffer, from, integer ? sorted.codes : sorted.rows, out, matrix.bias,
                           scratch_.runs, run.panels, run.first_expert, run.experts, matrix.rows,
                           run.first_row, matrix.rows, direct, mode, claims_}));
    } else {
      MILLRACE_TRY(device_->launch(
          kernel, generic_product_grid(run.panels, slots),
          {run.buffer, from, out, matrix.bias, scratch_.slots, slots, run.panels, run.first_expert,
           run.experts, matrix.rows, run.first_row, matrix.rows, direct, mode}));
    }
  }
  return {};
}

Status Experts::run_gate_up(const ExpertWeights& weights, const ExpertsInput& in) {
  const ExpertMatrix& matrix = weights.gate_up;
  const std::uint32_t slots = in.tokens * spec_.used;
  if (is_fused(weights)) {
    for (const ExpertRun& run : matrix.runs) {
      Kernel& kernel = products_.at(key_of(run.format, matrix.columns, true)).gate_up;
      MILLRACE_TRY(device_->launch(
          kernel, {.groups = {device_->info().compute_units}, .local = {}},
          {run.buffer, in.x.codes, scratch_.sorted.codes, sums_, scratch_.activated.codes,
           matrix.bias, scratch_.runs, run.panels, run.first_expert, run.experts, matrix.rows,
           code_stride(spec_.width), matrix.bias ? 2u : 0u, claims_}));
    }
    return {};
  }
  MILLRACE_TRY(run_matrix(matrix, in.x, scratch_.sorted, scratch_.gate_up, slots, true));
  const Forms forms = inputs_of(weights.down);
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
  if (in.tokens > direct_tokens_) MILLRACE_TRY(sort(in, inputs_of(weights.gate_up)));
  MILLRACE_TRY(run_gate_up(weights, in));
  const std::uint32_t slots = in.tokens * spec_.used;
  MILLRACE_TRY(run_matrix(weights.down, scratch_.activated, scratch_.activated, scratch_.down,
                          slots, false));
  return combine(weights, in, out);
}

}  // namespace millrace::engine
