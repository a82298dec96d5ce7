#pragma once
// The kernels of a model, compiled for its shapes and the device's family, and how each is
// launched. Operations know nothing of layers; Model strings them together. Buffers that hold
// activations are float [tokens][stride] with stride from `input_stride`, zero beyond their true
// width. Errors: kernel_build, device_error. Thread safety: the device's owner thread.
#include <cstdint>
#include <map>
#include <utility>

#include "engine/core/device/device.hpp"
#include "engine/core/model/spec.hpp"
#include "engine/core/model/step_table.hpp"
#include "engine/core/model/weights.hpp"
#include "schemas/base/error.hpp"

namespace millrace::engine {

// Floats from one row to the next of a matrix product's input with so many columns: padded so
// that rows do not fall on the same cache sets.
constexpr std::uint32_t input_stride(std::uint32_t columns) {
  return round_up(columns, 32) + 16;
}
// Rows that must be readable after the last row of a product's input.
inline constexpr std::uint32_t input_slack_rows = 16;

enum class Accumulate : std::uint8_t { replace, add };

// Of the cpu family's attention kernels; all give the same bits.
struct AttentionVariant {
  std::uint32_t sums = 0;         // vectors of 16 sums kept in registers; 0 by the device
  bool half_by_integers = false;  // converts halves without the processor's instruction
};

class Operations {
 public:
  Operations(Device& device, const ModelSpec& spec, AttentionVariant variant = {});

  // Compile what a layer needs besides its products (`qkv` gives the rows at which k and v begin),
  // what looks up embeddings, and a product; each before its first use, the last for every shape
  // and type, at no cost when it is known already.
  Status prepare_layer(const Projection& qkv);
  Status prepare_embedding(const Projection& embedding);
  Status prepare_product(const Projection& projection);

  // How the device wants attention cut; StepTable is made with it.
  const AttentionLimits& attention_limits() const { return attention_; }

  Status embed(const Projection& embedding, const StepTable& step, const Buffer& step_words,
               const Buffer& device_ids, const Buffer& hidden);
  // Rows of x -> out; with `gather`, those that the step's outputs name.
  Status norm(const Buffer& x, const Buffer& weight, const Buffer& out, const StepTable& step,
              const Buffer& step_words, bool gather);
  Status project(const Projection& projection, const Buffer& x, std::uint32_t columns,
                 const Buffer& out, std::uint32_t out_stride, Accumulate accumulate);
  Status rope_and_store(const Buffer& qkv, const Buffer& rope, const Buffer& kv,
                        const StepTable& step, const Buffer& step_words);
  // After rope_and_store. The two share the work: on CPUs rows of one token are rotated and stored
  // by `attend`.
  Status attend(const Buffer& qkv, const Buffer& rope, const Buffer& kv, const Buffer& out,
                const StepTable& step, const Buffer& step_words);
  Status silu(const Buffer& gate_up, const Buffer& out, std::uint32_t tokens);

 private:
  Result<Kernel> build_attention(std::uint32_t queries);
  Status reserve_scratch(const StepTable& step);
  Status attend_units(Kernel& kernel, const Buffer& qkv, const Buffer& rope, const Buffer& kv,
                      const Buffer& out, const StepTable& step, const Buffer& step_words,
                      ItemList units);

  Device* device_;
  ModelSpec spec_;
  AttentionVariant variant_;
  AttentionLimits attention_;
  std::uint32_t qkv_stride_ = 0;
  Kernel embed_, norm_, rope_kv_, silu_, attend_one_, attend_many_;
  Buffer partials_, work_;  // of attention units: what cut tiles gave, and counters
  std::vector<std::string> layer_defines_;
  std::map<std::pair<PanelFormat, std::uint32_t>, Kernel> products_;  // by format and padded K
};

}  // namespace millrace::engine
