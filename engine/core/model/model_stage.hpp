#pragma once
// Consecutive layers of a model on one device: their weights, KV memory and activations, and their
// part of a step. A model on one device is one stage. In a pipeline each stage is on a device of
// its own and reads the residual stream, `act.hidden`, that the stage before it left; the first
// looks up embeddings, and the last computes logits. Internal to this folder: Model loads stages
// and hands the stream over. Errors: those of Model. Thread safety: the device's owner thread.
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "engine/core/kv/kv_cache.hpp"
#include "engine/core/model/activations.hpp"
#include "engine/core/model/layer_program.hpp"
#include "engine/core/model/load_times.hpp"
#include "engine/core/model/model.hpp"
#include "engine/core/model/model_weights.hpp"
#include "engine/core/model/operations.hpp"
#include "engine/core/model/rope_tables.hpp"
#include "engine/core/model/step_table.hpp"
#include "engine/core/model/sublayers.hpp"

namespace millrace::engine {

// Its weights are members of its own.
class ModelStage : public ModelWeights {
 public:
  // What is given must outlive the stage.
  ModelStage(Device& on, const ModelSpec& of, const LayerRange& layers_here,
             const ModelOptions& how)
      : device(&on), spec(of), range(layers_here), options(how) {}

  bool is_first() const { return range.first == 0; }
  bool is_last() const { return range.end == spec.layer_count(); }
  const Projection& head() const { return spec.tied_output ? embedding : output; }
  // The most positions that a sequence can have: the pool may hold less than the model's context.
  std::uint32_t positions() const;

  // Loads weights, builds the kernels that do not depend on how keys and values are stored, and
  // allocates activations; the cache comes before. `small_cache` makes one for the probe alone.
  // `others` are programs to build meanwhile.
  Status load(const GgufFile& file, const KvLayers& kv, bool small_cache,
              const std::function<Status()>& others);
  Status create_cache(const KvLayers& kv, std::uint64_t kv_bytes);
  Status create_small_cache(const KvLayers& kv);
  std::uint64_t cache_bytes_left() const;  // of the device, without the small cache
  // For the codecs of the current cache: compiles the operations of all layers and their kernels.
  Status build_layers();

  // Enqueues the stage's part of a step, whose table is for this stage alone.
  Status run(StepTable& step, const Buffer& device_ids);
  std::uint64_t hidden_bytes(std::uint32_t tokens) const {
    return std::uint64_t{tokens} * operations->width_stride() * sizeof(float);
  }

  Device* const device;
  const ModelSpec& spec;
  const LayerRange range;
  const ModelOptions& options;
  std::unique_ptr<Operations> operations;
  KvCache cache;
  std::vector<Buffer> means;           // of keys, by layer; empty if keys are not centered
  std::vector<LayerProgram> programs;  // of the stage's layers, for the codecs of the current cache
  Activations act;
  Buffer logits;  // [outputs][logits stride]
  LayerPath layer_path;
  LoadTimes times;

 private:
  KvPages kv_pages(std::uint32_t index) const;
  Status announce_programs(const std::function<Status()>& others);
  Status build_operations();
  Status compile_layers();
  Status allocate_activations();
  Status write_step(const StepTable& step);
  Status run_layers(const StepTable& step);

  Sublayers sublayers_;
  DeviceRopes ropes_;
  Buffer query_factors_;                          // by position; empty for most models
  std::map<std::uint32_t, JoinedLayers> joined_;  // by the place of their first layer in programs
  Buffer step_words_;
  Buffer no_ids_;  // stands in for the sampler's ids when no row needs them
  std::uint64_t small_cache_bytes_ = 0;
};

}  // namespace millrace::engine
