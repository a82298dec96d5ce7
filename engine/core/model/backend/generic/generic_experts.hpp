#pragma once
// The products of experts in the generic family: one work-item for each output of each slot, which
// reads its row where it stands. Thread safety: the device's owner thread.
#include <cstdint>
#include <map>
#include <tuple>

#include "engine/core/model/backend/backend.hpp"

namespace millrace::engine {

class GenericExperts final : public ExpertProducts {
 public:
  explicit GenericExperts(const Backend& backend)
      : backend_(&backend), device_(backend.target().device) {}

  Status prepare(const ExpertWeights& weights) override;
  Status prepare(const ExpertMatrix& matrix) override;
  bool fuses_gate(const ExpertWeights&) const override { return false; }
  Forms gathered(const ExpertMatrix&) const override { return {}; }
  Status run(const ExpertMatrix& matrix, const ExpertsCall& call, const Buffer& out) override;
  Status gated(const ExpertWeights& weights, const ExpertsCall& call, const Buffer& codes) override;

 private:
  // Format, padded K, and whether it reads codes.
  using ProductKey = std::tuple<PanelFormat, std::uint32_t, bool>;
  bool reads_codes(const PanelFormat& format, std::uint32_t columns) const {
    return backend_->inputs_of(format, columns, backend_->target().math).codes;
  }

  const Backend* backend_;
  Device* device_;
  std::map<ProductKey, Kernel> products_;
};

}  // namespace millrace::engine
