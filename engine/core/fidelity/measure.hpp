#pragma once
// Measures how far KV policies move a model's outputs: the model reads the same contexts with fp16
// KV and with a policy.
//
//   MILLRACE_ASSIGN(auto run, FidelityRun::open(*device, file, contexts, {}, &reference));
//   MILLRACE_ASSIGN(PolicyFidelity cost, run->measure(policy));
//
// Both models are on the device at once and advance step by step, each with KV memory for one
// context. measure() loads the policy's model and frees it. Every token, even the newest, reads
// keys and values as they are stored. The figures do not depend on step_tokens.
//
// Errors: those of Model::load and Model::forward, in particular unsupported_field for heads that a
// policy's codecs cannot store; invalid_value for a reference of other positions or another
// vocabulary, or a context longer than the model's; io_error of the reference. Thread safety: the
// device's owner thread.
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/core/fidelity/comparison.hpp"
#include "engine/core/fidelity/contexts.hpp"
#include "engine/core/fidelity/logits_file.hpp"
#include "engine/core/kv/policy.hpp"
#include "engine/core/model/model.hpp"

namespace millrace::engine {

struct FidelityOptions {
  MathMode math = MathMode::fast;
  std::uint32_t step_tokens = 128;      // tokens in one step, and rows of logits of each model
  std::optional<KeyMeans> key_means{};  // subtracted from the policies' keys before they are stored
};

struct PolicyFidelity {
  std::string policy, layers, fingerprint;  // "r5/r3", "r5/r3 x30", the numeric fingerprint
  double bytes_per_token = 0, compression = 1;
  FidelityFigures against_f16;
  std::optional<FidelityFigures> against_reference;
};

class FidelityRun {
 public:
  // Device, file, contexts and reference (null: none) must outlive the run.
  static Result<std::unique_ptr<FidelityRun>> open(Device& device, const GgufFile& file,
                                                   const FidelityContexts& contexts,
                                                   const FidelityOptions& options,
                                                   LogitsFile* reference);

  const ModelInfo& model() const { return baseline_->info(); }  // the model with fp16 KV
  KvShape shape() const { return shape_; }
  Result<PolicyFidelity> measure(const KvPolicy& policy);

 private:
  struct Step;
  using Positions = std::vector<PositionFidelity>;

  FidelityRun(Device& device, const GgufFile& file, const FidelityContexts& contexts)
      : device_(&device), file_(&file), contexts_(&contexts) {}
  Result<std::unique_ptr<Model>> load(const KvPolicy& policy, bool of_policy);
  Status run_step(Model& model, const Step& step, Positions& from_f16, Positions& from_reference);
  Status compare_reference(const LogitRows& ours, const Step& step, Positions& out);

  Device* device_;
  const GgufFile* file_;
  const FidelityContexts* contexts_;
  FidelityOptions options_;
  KvShape shape_;
  std::unique_ptr<Model> baseline_;
  std::optional<Comparison> comparison_;
  LogitsFile* reference_ = nullptr;
  std::uint32_t reference_row_ = 0;  // of the first scored position
  Buffer reference_rows_;
};

}  // namespace millrace::engine
