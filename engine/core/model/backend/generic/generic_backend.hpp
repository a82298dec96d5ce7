#pragma once
// The generic family: plain OpenCL C 1.2, correct on every device, the reference of the others. A
// group's work-items share a row, or compute an output each; nothing is fused, no group waits for
// another, and nothing lasts from one launch to the next.
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <tuple>
#include <utility>
#include <vector>

#include "engine/core/model/backend/backend.hpp"
#include "engine/core/model/backend/panel_layout.hpp"

namespace millrace::engine {

// The program of kernels/matmul/exact_generic.cl or integer_generic.cl for one format and depth,
// and its launch: one work-item for each output.
ProgramSpec generic_product_program(const PanelLayout& layout, bool codes,
                                    CodeForm form = CodeForm::integers);
Grid generic_product_grid(std::uint32_t panels, std::uint32_t columns);

class GenericBackend : public Backend {
 public:
  explicit GenericBackend(Target of, bool lanes = false)
      : Backend(std::move(of), lanes), device_(target().device) {}

  Status prepare_product(const Projection& matrix, MathMode math) override;
  Status project(const ProductCall& call, MathMode math) override;
  Result<Forms> gated(const GatedCall& call) override;
  Status prepare_attention(const KvCodecs& codecs, std::uint32_t kind) override;
  Status rope_and_store(const AttentionCall& call) override;
  Result<Forms> attend(const AttentionCall& call, const Activation& out, Forms forms) override;
  std::unique_ptr<ExpertProducts> experts(const ExpertsSpec& spec, Gate gate) override;
  Result<JoinedLayers> join(std::span<const LayerProgram> layers) override;
  std::vector<const Buffer*> counters() const override { return {}; }

 protected:
  // Work-items of a group of attention, a power of two, at least 16.
  virtual std::uint32_t attention_items() const;
  // The kernel that attend() launches.
  virtual Result<Kernel> build_attention(const KvCodecs& codecs, std::uint32_t kind);
  // The kernel that rope_and_store() launches, the groups of a token, and their work-items.
  virtual Result<Kernel> build_store(const KvCodecs& codecs, std::uint32_t kind);
  virtual std::uint32_t store_groups(const KvPages& kv) const;
  virtual std::uint32_t store_items(const KvPages& kv) const;
  Kernel& attention_kernel(const KvPages& kv) {
    return kv_kernels_.at({kv.codecs, kv.kind}).attend;
  }
  // A part of a matrix that reads codes, or rows, for families that multiply them in another way.
  virtual Status prepare_codes(const PanelLayout& layout);
  virtual Status project_codes(const ProductCall& call, const WeightRun& run);
  virtual Status prepare_rows(const PanelLayout& layout);
  virtual Status project_rows(const ProductCall& call, const WeightRun& run);

 private:
  // Format, padded K, and whether it reads codes.
  using ProductKey = std::tuple<PanelFormat, std::uint32_t, bool>;
  Status prepare(const PanelLayout& layout, bool codes);
  struct KvKernels {
    Kernel rope_kv, attend;
  };

  Device* device_;
  std::map<std::pair<KvCodecs, std::uint32_t>, KvKernels> kv_kernels_;  // by codecs and kind
  std::map<ProductKey, Kernel> products_;
};

}  // namespace millrace::engine
