#pragma once
// The cpu family: explicit vectors of 16, one work-item a group, as many groups as cores. Groups
// claim chunks of a product or units of attention by counters; gate, up, gate function and codes
// are one launch; attention rotates its queries, stores rows of one token and writes codes; layers
// whose matrices are quantized share a launch (whole_layer.hpp).
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <tuple>
#include <utility>
#include <vector>

#include "engine/core/model/backend/backend.hpp"
#include "engine/core/model/backend/cpu/attention_units.hpp"
#include "engine/core/model/backend/cpu/scratch.hpp"
#include "engine/core/model/backend/cpu/whole_layer.hpp"
#include "engine/core/model/backend/panel_layout.hpp"

namespace millrace::engine {

// The program of kernels/matmul/exact_cpu.cl or integer_cpu.cl for one format and depth.
ProgramSpec cpu_product_program(const Target& target, const PanelLayout& layout, bool codes);

class CpuBackend final : public Backend {
 public:
  explicit CpuBackend(Target target);

  Status prepare_product(const Projection& matrix, MathMode math) override;
  Status project(const ProductCall& call, MathMode math) override;
  Result<Forms> gated(const GatedCall& call) override;
  void cut_attention(StepTable& step) override { planner_.append(limits_, step); }
  Status prepare_attention(const KvCodecs& codecs, std::uint32_t kind) override;
  Status rope_and_store(const AttentionCall& call) override;
  Result<Forms> attend(const AttentionCall& call, const Activation& out, Forms forms) override;
  std::unique_ptr<ExpertProducts> experts(const ExpertsSpec& spec, Gate gate) override;
  Result<JoinedLayers> join(std::span<const LayerProgram> layers) override;
  std::vector<const Buffer*> counters() const override;

  // By the cuts of the target.
  const std::vector<AttentionLimits>& attention_limits() const { return limits_; }

 private:
  // The kernels of one format and K. Only integer products have `gate_up`.
  struct Product {
    Kernel plain, gate_up;
  };
  // Format, padded K, and whether it reads codes.
  using ProductKey = std::tuple<PanelFormat, std::uint32_t, bool>;
  // The kernels of one pair of codecs.
  struct KvKernels {
    Kernel rope_kv, attend_one, attend_many;
  };
  struct AttentionOutput {
    const Buffer &rows, &codes;  // empty: not wanted
  };
  Result<Product> build_product(const PanelLayout& layout, bool codes);
  Product& product_of(const WeightRun& run, const Projection& matrix, bool codes);
  const AttentionLimits& limits_of(std::uint32_t kind) const {
    return limits_[target().cut_of(kind)];
  }
  Result<Kernel> build_attention(const KvCodecs& codecs, std::uint32_t kind, std::uint32_t queries);
  Status attend_units(Kernel& kernel, const AttentionCall& call, AttentionOutput out,
                      ItemList units);

  Device* device_;
  std::vector<AttentionLimits> limits_;
  AttentionPlanner planner_;
  CpuScratch scratch_;
  WholeLayers whole_layers_;
  std::map<std::pair<KvCodecs, std::uint32_t>, KvKernels> kv_kernels_;  // by codecs and kind
  std::map<ProductKey, Product> products_;
};

}  // namespace millrace::engine
