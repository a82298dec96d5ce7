#pragma once
// The products of experts in the cpu family: groups claim chunks of all experts' products, and
// slots of one expert are multiplied together. Thread safety: the device's owner thread.
#include <cstdint>
#include <map>
#include <tuple>

#include "engine/core/model/backend/backend.hpp"
#include "engine/core/model/backend/cpu/scratch.hpp"
#include "engine/core/model/backend/panel_layout.hpp"

namespace millrace::engine {

class CpuExperts final : public ExpertProducts {
 public:
  CpuExperts(const Backend& backend, CpuScratch& scratch, const ExpertsSpec& spec, Gate gate)
      : backend_(&backend),
        device_(backend.target().device),
        scratch_(&scratch),
        spec_(spec),
        gate_(gate) {}

  Status prepare(const ExpertWeights& weights) override;
  Status prepare(const ExpertMatrix& matrix) override;
  bool fuses_gate(const ExpertWeights& weights) const override;
  Forms gathered(const ExpertMatrix& matrix) const override { return backend_->inputs_of(matrix); }
  Status run(const ExpertMatrix& matrix, const ExpertsCall& call, const Buffer& out) override;
  Status gated(const ExpertWeights& weights, const ExpertsCall& call, const Buffer& codes) override;

 private:
  // The kernels of one format and K.
  struct Product {
    Kernel plain, gate_up;
  };
  // Format, K, and whether the program has the gate function.
  using ProductKey = std::tuple<PanelFormat, std::uint32_t, bool>;
  ProductKey key_of(const PanelFormat& format, std::uint32_t columns, bool gated) const;
  bool is_integer(const PanelFormat& format, std::uint32_t columns) const {
    return backend_->inputs_of(format, columns, backend_->target().math).codes;
  }
  Status prepare_matrix(const ExpertMatrix& matrix, bool gated);
  Result<Product> build_product(const PanelLayout& layout, bool gated);

  const Backend* backend_;
  Device* device_;
  CpuScratch* scratch_;
  ExpertsSpec spec_;
  Gate gate_;
  std::map<ProductKey, Product> products_;
};

}  // namespace millrace::engine
