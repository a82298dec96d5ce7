#pragma once
// Recurrences on a device (families/recurrence_spec.hpp): the kernels of kernels/recurrence,
// compiled for one shape, and the weights that they read. A sequence's state in a layer is float
// [state_floats()], in the place that a row of the step names (StepTable::state_rows).
//
// The bits of a token depend on the tokens of its sequence alone: it is computed from the state
// that the token before it left, whether both are in one row of a step or not. Errors:
// kernel_build, device_error, out_of_memory; of loading, gguf_malformed. Thread safety: the
// device's owner thread.
#include <cstdint>
#include <string>
#include <vector>

#include "engine/core/device/device.hpp"
#include "engine/core/families/recurrence_spec.hpp"
#include "engine/core/model/backend/target.hpp"
#include "engine/core/model/step_table.hpp"
#include "engine/core/model/weights.hpp"
#include "schemas/base/error.hpp"

namespace millrace::engine {

// A step of one layer: `mixed`, float [tokens][stride], is the product of the sublayer's input with
// RecurrenceWeights::in, and is overwritten; `states`, float [slots][state_floats()], is the
// layer's memory; `out`, float [tokens][input_stride(outputs())], gets what the last product reads.
struct RecurrenceCall {
  const RecurrenceWeights& weights;
  const Buffer& mixed;
  const Buffer& states;
  const Buffer& out;
  const StepTable& step;
  const Buffer& step_words;
};

class Recurrence {
 public:
  // `in` says how the rows of `mixed` are laid out; layers whose matrices are laid out alike share
  // a Recurrence. Steps have up to `step_tokens` tokens.
  Recurrence(const Target& target, const RecurrenceSpec& spec, const Projection& in,
             std::uint32_t step_tokens);

  bool serves(const RecurrenceSpec& spec, const Projection& in) const;
  // Both cost nothing if it is done. Layers that a backend runs whole need no kernels of their own.
  Status allocate();  // what lies between the parts
  Status prepare();   // allocates, and compiles the kernels of run()
  Status run(const RecurrenceCall& call);

  // For a backend that makes its own launches of the same functions: the defines of
  // kernels/recurrence, and what lies between its parts, float [tokens][2][heads, padded to 16].
  std::vector<std::string> defines() const;
  const Buffer& gates() const { return gates_; }
  const RecurrenceSpec& spec() const { return spec_; }

 private:
  Status run_heads(const RecurrenceCall& call);
  std::uint32_t values_a_group() const;
  bool is_delta_net() const { return spec_.kind == RecurrenceKind::delta_net; }
  // The parts in which a token's gates are computed: in a delta net one for each query and key.
  std::uint32_t gate_parts() const { return is_delta_net() ? 2 * spec_.key_heads : 1; }
  std::uint32_t norms() const { return is_delta_net() ? spec_.heads : spec_.key_heads; }

  Device* device_;
  RecurrenceSpec spec_;
  std::vector<std::uint32_t> first_;  // of the parts of a row of `mixed`
  std::uint32_t stride_;              // floats of a row of `mixed`
  std::uint32_t step_tokens_;
  float epsilon_;
  Buffer gates_;
  Kernel convolve_, prepare_gates_, recur_, output_;
};

}  // namespace millrace::engine
