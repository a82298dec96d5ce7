#pragma once
// Runs consecutive layers of a step in one launch, or in a few launches in a wide step, with the
// same bits as their operations one by one. The kernel's text is generated from the layers'
// programs (layer_text.hpp): each operation becomes a phase, experts become seven, and operations
// that go along rows share one; kernels/layer/cpu.cl has what a phase calls. Layers may differ in
// the types of their matrices and in their operations; those that attend share the KV codecs and
// the kind of attention, those that recur the recurrence, and all the shape of the feed-forward and
// the type of the experts' router. For CPU devices that share the host's memory. Errors:
// kernel_build, device_error, out_of_memory. Thread safety: the device's owner thread.
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "engine/core/device/device.hpp"
#include "engine/core/model/backend/cpu/attention_units.hpp"
#include "engine/core/model/backend/cpu/scratch.hpp"
#include "engine/core/model/backend/target.hpp"
#include "engine/core/model/layer_program.hpp"

namespace millrace::engine {

// Consecutive layers that run in one launch, or in a few launches in a wide step.
struct LayerRun {
  Kernel kernel;  // of this run only, because the driver is told which buffers it reads
  std::uint32_t layers = 0;
  std::uint64_t weights = 0;        // of all these layers
  std::uint32_t kind = 0;           // of their attention
  std::uint32_t attended = 0;       // columns of its output; 0: no layer attends
  std::uint32_t columns = 0;        // of the widest output of attention and recurrence
  std::uint32_t dense_columns = 0;  // of the activation of the dense feed-forward; 0: none
  Buffer table;                     // addresses of the buffers of each layer
  std::vector<const Buffer*> buffers;
  // If the layers have experts: the addresses of their memory, and of which generation it is.
  Experts* experts = nullptr;
  Buffer memory;
  std::uint64_t memory_generation = 0;
};

// The buffers that a run of layers reads and writes in a step.
struct LayerStep {
  const Buffer& hidden;
  const Activation& normed;
  const Buffer &qkv, &attended_codes, &attended_rows, &activated_codes, &branch;
  const StepTable& step;
  const Buffer& step_words;
};

class WholeLayers {
 public:
  // `limits` has an entry for each of the target's cuts.
  WholeLayers(const Target& target, const std::vector<AttentionLimits>& limits, CpuScratch& scratch)
      : target_(&target), limits_(&limits), scratch_(&scratch) {}

  // Compiles layers that run together. The layers' buffers must outlive the run.
  Result<LayerRun> prepare(std::span<const LayerProgram> layers);
  Status run(LayerRun& layers, const LayerStep& x);

  // The counters by which groups share the phases; empty before the first run is prepared.
  const Buffer& counters() const { return phases_; }

 private:
  struct Lowered;
  const AttentionLimits& limits_of(std::uint32_t kind) const {
    return (*limits_)[target_->cut_of(kind)];
  }
  Status name_memory(LayerRun& layers, std::uint32_t tokens);
  // `products` are those of a core: of all the layers, and of one launch.
  std::uint32_t layers_a_launch(const LayerRun& layers, std::uint64_t products) const;
  std::uint32_t patience_of(std::uint64_t products) const;
  ProgramSpec program_of(const LayerProgram& layer, std::uint32_t kind, const KvCodecs& codecs,
                         const Lowered& lowered) const;
  static void add_recurrence(ProgramSpec& program, const Lowered& lowered);

  const Target* target_;
  const std::vector<AttentionLimits>* limits_;
  CpuScratch* scratch_;
  Buffer phases_;
  std::map<std::string, Program> programs_;  // by text and defines
};

}  // namespace millrace::engine
