#pragma once
// The experts of a feed-forward (kernels/experts/README.md): the router, the products of the chosen
// experts, which the backend launches, and their weighed sum. Compiled for one ExpertsSpec and gate
// function, it serves every layer that has them.
//
//   Experts experts(backend, *spec.experts, spec.gate);
//   MILLRACE_TRY(experts.prepare(weights));                  // of each layer, before the first run
//   MILLRACE_TRY(experts.run(weights, {.x = normed, .tokens = tokens}, {.rows = hidden}));
//
// A shared expert is a dense feed-forward of ExpertWeights::shared_gate_up and shared_down, which
// the caller computes into rows of their own; run() weighs and adds them. A token's result has the
// same bits whatever other tokens share the launch and whatever experts they chose. Errors:
// kernel_build, device_error, out_of_memory. Thread safety: the device's owner thread.
#include <cstdint>
#include <memory>
#include <string>

#include "engine/core/device/device.hpp"
#include "engine/core/families/feed_forward_spec.hpp"
#include "engine/core/model/backend/backend.hpp"
#include "engine/core/model/expert_weights.hpp"
#include "engine/core/model/forms.hpp"
#include "schemas/base/error.hpp"

namespace millrace::engine {

// What the experts read: normed rows in the forms of Experts::inputs_of, at the strides of
// input_stride and code_stride, in memory for as many as code_rows says or with input_slack_rows
// after the last one; and the shared expert's result, if the spec has one.
struct ExpertsInput {
  const Activation& x;
  std::uint32_t tokens = 0;            // at least 1
  const Buffer& shared = no_buffer;    // float [tokens][shared_stride]
  std::uint32_t shared_stride = 0;     // a multiple of 16, at least the width rounded up to 16
  const Activation* routed = nullptr;  // rows for the router, if it has an input of its own
};

// Where the result goes: rows of input_stride(width) floats, which are replaced by scale * result,
// or to which it is added.
struct ExpertsOutput {
  const Buffer& rows;
  Accumulate accumulate = Accumulate::add;
  float scale = 1.0f;
};

// What a step lays down between the launches of its experts.
struct ExpertsMemory {
  std::uint32_t tokens = 0;      // for which there is room
  std::uint64_t generation = 0;  // another one when the buffers were allocated anew
  Buffer logits, weights, chosen;
  Buffer runs, slots, places, cursors;  // kernels/experts/runs.cl
  Activation sorted, activated;
  Buffer gate_up, down;
};

class Experts {
 public:
  // Steps of up to `direct_tokens` read the experts of each token directly. Larger ones sort the
  // choices by expert first, so that the weights of an expert are read once for all its tokens.
  static constexpr std::uint32_t default_direct_tokens = 1;

  // The backend must outlive the experts.
  Experts(Backend& backend, const ExpertsSpec& spec, Gate gate,
          std::uint32_t direct_tokens = default_direct_tokens);

  // The forms in which run() reads its input: also rows, unless the router has an input of its own.
  Forms inputs_of(const ExpertWeights& weights) const;
  // Compiles the kernels that a layer needs; costs nothing if they are compiled already.
  Status prepare(const ExpertWeights& weights);
  Status run(const ExpertWeights& weights, const ExpertsInput& in, const ExpertsOutput& out);

  // The choices of the last run: uint [tokens][used], best first, and float [tokens][used + 1], the
  // weights of the chosen experts and then of the shared one.
  const Buffer& chosen() const { return memory_.chosen; }
  const Buffer& weights() const { return memory_.weights; }

  // For backends that run whole layers: what the kernels get besides weights. The memory of steps
  // of up to so many tokens stays where it is until more is asked for.
  const ExpertsSpec& spec() const { return spec_; }
  Gate gate() const { return gate_; }
  std::uint32_t direct_tokens() const { return direct_tokens_; }
  std::uint32_t route_flags(const ExpertWeights& weights) const;  // but for ROUTE_DIRECT
  Result<const ExpertsMemory*> memory(std::uint32_t tokens);

 private:
  struct Needs {
    Forms sorted, activated;
    bool gate_up = false;
    std::uint32_t router_rows = 0;
  };

  Grid rows_grid(std::uint32_t rows) const;
  std::string row_items() const;

  Status prepare_routing();
  Status prepare_activation();

  Status reserve(std::uint32_t needed);
  Status route(const ExpertWeights& weights, const ExpertsInput& in);
  Status sort(const ExpertWeights& weights, const ExpertsInput& in);
  Status run_gate_up(const ExpertWeights& weights, const ExpertsInput& in);
  Status combine(const ExpertWeights& weights, const ExpertsInput& in, const ExpertsOutput& out);

  const Target& target() const { return backend_->target(); }

  Backend* backend_;
  Device* device_;
  ExpertsSpec spec_;
  Gate gate_;
  std::uint32_t width_;
  std::uint32_t direct_tokens_;
  std::unique_ptr<ExpertProducts> products_;
  Needs needs_;
  ExpertsMemory memory_;
  std::uint64_t generations_ = 0;
  Kernel route_, sort_, gather_, combine_;
  std::uint32_t route_items_ = 1, combine_items_ = 1;  // work-items of a group, one for each token
  Kernel activate_, activate_quantize_;
};

}  // namespace millrace::engine
