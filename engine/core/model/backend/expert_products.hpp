#pragma once
// The products of a mixture of experts as a backend launches them, for one ExpertsSpec and gate
// function. Experts (../experts.hpp) calls them between routing and the weighed sum. Errors:
// kernel_build, device_error, out_of_memory. Thread safety: the device's owner thread.
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "engine/core/model/expert_weights.hpp"
#include "engine/core/model/forms.hpp"
#include "schemas/base/error.hpp"

namespace millrace::engine {

// One product over the slots of a step; a slot is a token and one of the experts that it chose.
struct ExpertsCall {
  const Activation& x;  // a row for each token if `by_token`, or for each slot
  bool by_token = true;
  const Activation& sorted;    // the rows of x by expert, as far as gathered() asks for them
  const Buffer &runs, &slots;  // what kernels/experts/runs.cl says of them
  std::uint32_t slot_count = 0;
  bool grouped = false;  // slots are those of group()
};

// The choices of a step, whose rows are to stand side by side by expert.
struct GroupCall {
  const Buffer& chosen;  // kernels/experts/route.cl
  const Activation& x;   // a row for each token
  const Activation& sorted;
  const Buffer& places;   // the slot of each choice, kernels/experts/runs.cl
  const Buffer& scratch;  // a word for each slot
  std::uint32_t tokens = 0;
};

// A family's own forms of route (kernels/experts/route.cl) and combine (runs.cl): a source with
// both kernels, its defines besides EXPERTS, and the work-items of a group, one for each token.
struct RoutingKernels {
  std::string source;
  std::vector<std::string> defines;
  std::uint32_t route_items = 1, combine_items = 1;
};

class ExpertProducts {
 public:
  ExpertProducts() = default;
  ExpertProducts(const ExpertProducts&) = delete;
  ExpertProducts& operator=(const ExpertProducts&) = delete;
  virtual ~ExpertProducts() = default;

  // Compiles what a layer needs; costs nothing if that is done.
  virtual Status prepare(const ExpertWeights& weights) = 0;
  // The same for products by one matrix, which run() launches.
  virtual Status prepare(const ExpertMatrix& matrix) = 0;
  // Whether gated() computes the layer's gate and up. If not, run() does, and Experts the rest.
  virtual bool fuses_gate(const ExpertWeights& weights) const = 0;
  // The forms in which the rows of sorted tokens must stand side by side for products by this
  // matrix; they need as much room as the input of the matrix, slot by slot.
  virtual Forms gathered(const ExpertMatrix& matrix) const = 0;

  // None: those of all families.
  virtual std::optional<RoutingKernels> routing() const { return std::nullopt; }
  // Whether the family groups the rows of a step for this layer in a way of its own, group(), which
  // fills sorted and places for the products that follow. If not, Experts sorts them.
  virtual bool groups(const ExpertWeights& /*weights*/) const { return false; }
  virtual Status group(const GroupCall& call);
  // The slots that so many choices take at most: a family that groups them may leave gaps.
  virtual std::uint64_t slots_for(std::uint64_t choices) const { return choices; }

  // out = matrix of its expert * x, with its bias, for each slot: float [slots][matrix.rows].
  virtual Status run(const ExpertMatrix& matrix, const ExpertsCall& call, const Buffer& out) = 0;
  // codes = gate function(gate) * up for each slot, if fuses_gate().
  virtual Status gated(const ExpertWeights& weights, const ExpertsCall& call,
                       const Buffer& codes) = 0;
};

inline Status ExpertProducts::group(const GroupCall&) {
  return fail(Code::internal, "this family does not group the rows of experts");
}

}  // namespace millrace::engine
