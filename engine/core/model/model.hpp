#pragma once
// A language model on one device or several: weights, KV memory, and the forward pass of a step.
//
//   MILLRACE_ASSIGN(GgufFile file, GgufFile::open(path));
//   MILLRACE_ASSIGN(auto model, Model::load(*device, file, options));
//   MILLRACE_TRY(model->forward(plan, sampler_ids));   // enqueues, does not wait
//   ... kernels that read model->logits() ...
//
// forward() enqueues everything a step needs on the device's in-order queue and returns. It leaves
// one row of logits for each RowOutput, in the order of the plan: float32, model->logits_stride()
// apart, of which the first info().vocabulary are valid. The rows stay until the next forward().
//
// The bits of a row's logits depend on the tokens of its sequence up to that position and on the
// fingerprint alone: not on the other rows, nor on how the tokens were split over steps.
//
// Over several devices the model is a pipeline: each has consecutive layers, with their weights and
// KV pages, and hands the residual stream over to the next (device/hand_over.hpp). Embeddings are
// the first one's, logits the last one's. The bits are those of one device. forward() runs a step
// through all of them; for all to work at once a step is enqueued in parts of different rows:
//
//   MILLRACE_TRY(model->lower(part, plan, ids));              // checks the part's plan
//   MILLRACE_TRY(model->run_stage(part, stage, ids));         // for each stage in order
//
// The parts of a step go through each stage in one order. run_stage() waits until the stage before
// has computed the part, and enqueues this one's work.
//
// The file needs to stay open during load() only. Errors of load: unsupported_architecture,
// unsupported_tensor_type, gguf_malformed (a tensor that is missing or has another shape, with its
// name), kv_exceeded (memory for less than one page), invalid_value (an option), out_of_memory,
// kernel_build, device_error. Errors of forward: invalid_token, and internal for a plan that breaks
// its contract; then nothing was enqueued. Thread safety: the device's owner thread.
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/core/device/device.hpp"
#include "engine/core/families/spec.hpp"
#include "engine/core/gguf/file.hpp"
#include "engine/core/kv/cache_shape.hpp"
#include "engine/core/kv/key_means.hpp"
#include "engine/core/kv/outliers.hpp"
#include "engine/core/model/backend/kernel_variant.hpp"
#include "engine/core/model/layer_path.hpp"
#include "engine/core/model/math_mode.hpp"
#include "engine/core/model/plan.hpp"
#include "kernels/tuned.hpp"
#include "schemas/base/error.hpp"

namespace millrace::engine {

class KvCache;

struct ModelOptions {
  std::string kv = "f16";               // KV policy
  std::optional<KeyMeans> key_means{};  // subtracted from keys before they are stored
  std::uint64_t kv_bytes = 1ull << 30;  // of all layers together
  bool kv_takes_rest = false;           // the cache takes left_for_cache in place of kv_bytes
  CacheLoad kv_load{};                  // by which cache groups share kv_bytes
  std::string_view smaller_kv = "lower --kv-memory";  // hint when kv_bytes do not fit the device
  std::uint32_t step_tokens = 512;                    // most tokens in one plan
  std::uint32_t step_outputs = 512;                   // most logits rows in one plan
  MathMode math = MathMode::fast;
  // Runs layers in one launch if their formats allow it (kernels/layer). Otherwise operations are
  // launched one by one, with the same bits.
  bool whole_layers = true;
  KernelVariant variant{};                  // of the backend's kernels
  std::optional<kernels::Tuning> tuning{};  // replaces the device's row of the tuned table
  // Of a pipeline: the layers of each device; empty: ranges of about as many bytes of weights.
  std::vector<std::uint32_t> stage_layers{};
  // Builds programs that load() announces with its own (Device::announce), for use after it; in a
  // pipeline on the last device.
  std::function<Status()> other_programs{};
};

struct ModelInfo {
  std::string name, architecture;
  std::string kv;  // codecs by layer, such as "f16/f16 x30"; also names key_means
  double kv_token_bytes = 0, kv_compression = 1;  // of these codecs; compression is against f16
  std::vector<OutlierLayer> outliers;  // layers that were protected because keys have outliers
  std::string fingerprint;             // numeric fingerprint, 32 hex digits
  LayerPath layer_path{};
  std::vector<LayerRange> stages;  // the layers of each device
  std::string program;             // for people: the operations of the layers, a line each
  std::uint32_t layers = 0, width = 0, vocabulary = 0;
  std::uint32_t context_tokens = 0;        // the model's own limit
  std::uint32_t least_prefill_tokens = 0;  // that a step should have (ModelSpec)
  std::uint32_t page_tokens = 0;           // positions in a KV page
  std::vector<PoolSize> pools;             // of the cache; ids of a pool are below its pages
  std::string kv_memory;          // for people: what each group holds, if there are several
  std::uint32_t page_count = 0;   // of group 0
  std::uint64_t page_bytes = 0;   // of one page over all layers
  std::uint64_t state_bytes = 0;  // of one sequence over all recurrent layers
};

class Model {
 public:
  static Result<std::unique_ptr<Model>> load(Device& device, const GgufFile& file,
                                             const ModelOptions& options);
  // Takes `spec` for what the file says of the model; the fingerprint names the file alone.
  static Result<std::unique_ptr<Model>> load(Device& device, const GgufFile& file, ModelSpec spec,
                                             const ModelOptions& options);
  // Over devices of one kind, in the order of their layers; also invalid_value if they are not, or
  // if there are more of them than layers.
  static Result<std::unique_ptr<Model>> load(std::span<Device* const> devices, const GgufFile& file,
                                             const ModelOptions& options);
  static Result<std::unique_ptr<Model>> load(std::span<Device* const> devices, const GgufFile& file,
                                             ModelSpec spec, const ModelOptions& options);
  Model(const Model&) = delete;
  Model& operator=(const Model&) = delete;
  ~Model();

  const ModelInfo& info() const;

  // `device_ids` holds uint32 ids by slot, for rows with a device_slot; may be empty when no row
  // has one. An id in it that lies outside the vocabulary is read as id 0.
  Status forward(const StepPlan& plan, const Buffer& device_ids);

  // A step in parts, below stages() in number, see above. The ids are those of forward(), on the
  // first device.
  Status lower(std::size_t part, const StepPlan& plan, const Buffer& device_ids);
  Status run_stage(std::size_t part, std::size_t stage, const Buffer& device_ids);
  std::size_t stages() const;
  Device& device(std::size_t stage) const;
  Status finish();  // waits for all devices

  // Call this after an error that the devices survived. It enqueues the reset of the counters:
  // those that an aborted launch left behind would make the next step wrong.
  Status recover();
  std::vector<const Buffer*> counters() const;  // of the first device, for tests

  const Buffer& logits() const;
  std::uint32_t logits_stride() const;  // floats from one row to the next

  // Enqueues a copy of a page in the layers of a cache group.
  Status copy_page(const PageCopy& copy);
  // Copies of pages and states from and to the host, info().page_bytes and info().state_bytes each,
  // as KvCache's. The events are of several devices; Device::wait of any takes them.
  Result<std::vector<DeviceEvent>> read_pages(std::span<const PageId> pages,
                                              std::span<std::byte> into) const;
  Result<std::vector<DeviceEvent>> write_pages(std::span<const PageId> pages,
                                               std::span<const std::byte> from);
  Result<std::vector<DeviceEvent>> read_state(PageId state, std::span<std::byte> into) const;
  Result<std::vector<DeviceEvent>> write_state(PageId state, std::span<const std::byte> from);
  // Backend::read_key.
  void read_key(std::span<const std::byte> page, std::uint32_t head, std::uint32_t slot,
                std::span<float> out) const;

 private:
  struct State;
  explicit Model(std::unique_ptr<State> state);
  Result<std::vector<DeviceEvent>> on_all_stages(
      const std::function<Result<std::vector<DeviceEvent>>(Device&, const KvCache&)>& enqueue)
      const;
  std::unique_ptr<State> state_;
};

}  // namespace millrace::engine
