#pragma once
// The products of experts on NVIDIA GPUs in math fast, on the matrix unit: a launch groups the rows
// of all tokens by expert (kernels/experts/group.cl), one multiplies them by gate and up and ends
// in their activation, and one by down, each for all experts at once. The host knows neither how
// many slots an expert has nor how many tiles there are, and does not wait for that. Layers whose
// gate and up are not paired, and products of heads, are the generic family's.
//
// A result depends on its row and its expert alone: a tile has rows of one expert, an output is one
// chain of instructions over K whatever the tile (kernels/matmul/half_nvidia.cl), and the sum over
// experts is by rank. Thread safety: the device's owner thread.
#include <cstdint>
#include <map>
#include <tuple>
#include <vector>

#include "engine/core/model/backend/generic/generic_experts.hpp"
#include "engine/core/model/backend/nvidia/expert_shapes.hpp"

namespace millrace::engine {

class NvidiaExperts final : public ExpertProducts {
 public:
  // The backend and the wide products must outlive it.
  NvidiaExperts(const Backend& backend, WideProducts& wide, const ExpertsSpec& spec, Gate gate)
      : backend_(&backend),
        device_(backend.target().device),
        wide_(&wide),
        spec_(spec),
        gate_(gate),
        has_wide_(wide.why_not().empty()),
        generic_(backend) {}

  Status prepare(const ExpertWeights& weights) override;
  Status prepare(const ExpertMatrix& matrix) override { return generic_.prepare(matrix); }
  bool fuses_gate(const ExpertWeights& weights) const override { return weights.gate_up.paired; }
  bool groups(const ExpertWeights& weights) const override { return weights.gate_up.paired; }
  Forms gathered(const ExpertMatrix& matrix) const override { return {.codes = matrix.paired}; }
  std::optional<RoutingKernels> routing() const override;
  std::uint64_t slots_for(std::uint64_t choices) const override;
  Status group(const GroupCall& call) override;
  Status run(const ExpertMatrix& matrix, const ExpertsCall& call, const Buffer& out) override;
  Status gated(const ExpertWeights& weights, const ExpertsCall& call, const Buffer& codes) override;

 private:
  // Format, padded K, and the number of the shape.
  using Key = std::tuple<PanelFormat, std::uint32_t, std::uint32_t>;
  const ExpertShape& shape_for(std::uint64_t choices) const;
  Status prepare_group();
  Status prepare_shapes(const ExpertMatrix& matrix);
  Status build_shapes(const PanelLayout& layout);
  Status build(const PanelLayout& layout, const ExpertShape& shape);
  Key key_of(const PanelFormat& format, std::uint32_t columns, const ExpertShape& shape) const;
  Status reserve(std::uint64_t choices);
  // The mode is that of the kernels (kernels/matmul/mode.h).
  Status launch(const ExpertMatrix& matrix, const ExpertsCall& call, const Buffer& out,
                std::uint32_t out_stride, std::uint32_t mode);

  const Backend* backend_;
  Device* device_;
  WideProducts* wide_;
  ExpertsSpec spec_;
  Gate gate_;
  bool has_wide_;  // whether shapes of four warps may be chosen
  GenericExperts generic_;
  Kernel group_;
  std::map<Key, Kernel> products_;
  std::vector<PanelLayout> layouts_;  // that products_ has the shapes of
  // The list of tiles of the last step (kernels/experts/tiles.h). Launches run in order, so all
  // layers use the same; the driver keeps an old buffer until its commands are done.
  Buffer tiles_;
  std::uint64_t room_ = 0;  // choices
};

}  // namespace millrace::engine
