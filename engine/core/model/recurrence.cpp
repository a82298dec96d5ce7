#include "engine/core/model/recurrence.hpp"

#include <algorithm>

#include "engine/core/model/program_text.hpp"

namespace millrace::engine {
namespace {

// Blocks of 16 channels that a group convolves: few, so that a single long row occupies all cores.
constexpr std::uint32_t convolve_blocks = 16;
// A work-item of the cpu family has two vectors of values, whose sums do not wait for each other.
constexpr std::uint32_t vector_values = 32;
// Work-items of a group elsewhere, each with one value.
constexpr std::uint32_t most_items = 64;

// Where the parts of a row of `mixed` begin.
struct Places {
  std::uint32_t channels = 0, queries = 0, keys = 0, values = 0, gates = 0, writes = 0, decays = 0;
};

Places places_of(const RecurrenceSpec& spec, const std::vector<std::uint32_t>& first) {
  Places at;
  if (spec.kind == RecurrenceKind::delta_net) {  // [q | k | v] [z] [b] [a], or [b, a]
    at.channels = first[0];
    at.queries = at.channels;
    at.keys = at.queries + spec.keys();
    at.values = at.keys + spec.keys();
    at.gates = first[1];
    at.writes = first[2];
    at.decays = spec.gates_by_key_head ? at.writes + spec.heads / spec.key_heads : first[3];
  } else if (spec.kind == RecurrenceKind::mamba2) {  // [z | v | k | q | a]
    at.gates = first[0];
    at.channels = at.values = at.gates + spec.values();
    at.keys = at.values + spec.values();
    at.queries = at.keys + spec.keys();
    at.decays = at.queries + spec.keys();
  }
  return at;
}

}  // namespace

Recurrence::Recurrence(const Target& target, const RecurrenceSpec& spec, const Projection& in,
                       std::uint32_t step_tokens)
    : device_(target.device),
      spec_(spec),
      first_(in.first),
      stride_(in.rows),
      step_tokens_(step_tokens),
      epsilon_(target.spec.norm_epsilon) {}

bool Recurrence::serves(const RecurrenceSpec& spec, const Projection& in) const {
  return spec == spec_ && in.first == first_ && in.rows == stride_;
}

std::uint32_t Recurrence::values_a_group() const {
  const std::uint32_t most = device_->row_items() == 1 ? vector_values : most_items;
  std::uint32_t values = 16;
  while (values * 2 <= most && spec_.value_dim % (values * 2) == 0) values *= 2;
  return values;
}

std::vector<std::string> Recurrence::defines() const {
  const Places at = places_of(spec_, first_);
  std::vector<std::string> out;
  const auto add = [&](std::string_view name, std::uint64_t value) {
    out.push_back(define(name, value));
  };
  add("ROW_ITEMS", device_->row_items());
  add("TAPS", spec_.taps);
  add("CHANNELS", spec_.channels);
  add("CHANNELS_AT", at.channels);
  add("HISTORY_AT", std::uint64_t{spec_.values()} * spec_.key_dim);
  add("STATE_FLOATS", spec_.state_floats());
  add("OUTPUTS", spec_.outputs());
  add("CONVOLVE_BLOCKS", convolve_blocks);
  add("CONVOLVE_GATED", spec_.has_heads() ? 0 : 1);
  add("RECUR_HEADS", std::max(spec_.heads, 1u));
  if (!spec_.has_heads()) return out;
  add("DELTA", is_delta_net() ? 1 : 0);
  add("KEY_HEADS", spec_.key_heads);
  add("KEY_DIM", spec_.key_dim);
  add("RECUR_VALUE_DIM", spec_.value_dim);
  add("QUERIES_AT", at.queries);
  add("KEYS_AT", at.keys);
  add("VALUES_AT", at.values);
  add("GATES_AT", at.gates);
  add("WRITES_AT", at.writes);
  add("DECAYS_AT", at.decays);
  add("KEYS_IN_TURN", spec_.keys_in_turn ? 1 : 0);
  add("GATES_BY_KEY_HEAD", spec_.gates_by_key_head ? 1 : 0);
  add("GATE_PARTS", gate_parts());
  add("OUTPUT_NORMS", norms());
  add("OUTPUT_CHANNELS", spec_.values() / norms());
  add("RECUR_VALUES", values_a_group());
  return out;
}

Status Recurrence::allocate() {
  if (!spec_.has_heads() || gates_.size_bytes() > 0) return {};
  const std::uint64_t numbers = std::uint64_t{2} * round_up(spec_.heads, 16) * step_tokens_;
  MILLRACE_ASSIGN(gates_, device_->allocate(numbers * sizeof(float), "the gates of a recurrence"));
  return {};
}

Status Recurrence::prepare() {
  MILLRACE_TRY(allocate());
  if (convolve_) return {};
  ProgramSpec program{
      .name = "recurrence", .sources = {"recurrence/convolve.cl"}, .defines = defines()};
  if (spec_.has_heads()) {
    for (const char* source :
         {"recurrence/gates.cl", "recurrence/recur.cl", "recurrence/output.cl"}) {
      program.sources.emplace_back(source);
    }
  }
  MILLRACE_ASSIGN(const Program built, device_->build(program));
  MILLRACE_ASSIGN(convolve_, device_->kernel(built, "convolve"));
  if (!spec_.has_heads()) return {};
  MILLRACE_ASSIGN(prepare_gates_, device_->kernel(built, "recurrence_gates"));
  MILLRACE_ASSIGN(recur_, device_->kernel(built, "recur"));
  MILLRACE_ASSIGN(output_, device_->kernel(built, "recurrence_output"));
  return {};
}

Status Recurrence::run(const RecurrenceCall& call) {
  const std::uint32_t blocks = (spec_.channels / 16 + convolve_blocks - 1) / convolve_blocks;
  const StepTable& step = call.step;
  MILLRACE_TRY(device_->launch(
      convolve_, {.groups = {blocks, step.state_rows.count}, .local = {device_->row_items()}},
      {call.mixed, spec_.has_heads() ? no_buffer : call.out, call.weights.taps,
       call.weights.conv_bias, call.states, call.step_words, step.state_rows.offset, stride_,
       input_stride(spec_.outputs()), static_cast<std::uint32_t>(spec_.state_floats())}));
  return spec_.has_heads() ? run_heads(call) : Status();
}

Status Recurrence::run_heads(const RecurrenceCall& call) {
  const RecurrenceWeights& weights = call.weights;
  const std::uint32_t tokens = call.step.tokens, items = device_->row_items();
  MILLRACE_TRY(device_->launch(prepare_gates_, {.groups = {gate_parts(), tokens}, .local = {items}},
                               {call.mixed, weights.a, weights.dt_bias, gates_, stride_}));
  const std::uint32_t values = values_a_group();
  const std::uint32_t out_stride = input_stride(spec_.outputs());
  MILLRACE_TRY(device_->launch(
      recur_,
      {.groups = {spec_.value_dim / values, spec_.heads, call.step.state_rows.count},
       .local = {items == 1 ? 1 : values}},
      {call.mixed, gates_, weights.skip, call.states, call.out, call.step_words,
       call.step.state_rows.offset, stride_, out_stride,
       static_cast<std::uint32_t>(spec_.state_floats())}));
  return device_->launch(output_, {.groups = {norms(), tokens}, .local = {items}},
                         {call.out, call.mixed, weights.norm, out_stride, stride_, epsilon_});
}

}  // namespace millrace::engine
