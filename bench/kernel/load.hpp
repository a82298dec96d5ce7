#pragma once
// One kernel with its own memory, on shapes of SmolLM2-135M unless the caller says otherwise, which
// kernel_bench, attention_bench and the tuner launch repeatedly to time it. Thread safety: the
// device's owner thread.
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "engine/core/device/device.hpp"
#include "engine/core/model/operations.hpp"

namespace millrace::engine {

using MaybeTuning = std::optional<kernels::Tuning>;

// The product weights x activations, with up to `most_columns` activations.
class ProductLoad {
 public:
  static constexpr std::uint32_t most_columns = 512;
  static Result<std::unique_ptr<ProductLoad>> create(Device& device, MathMode math, TensorType type,
                                                     std::uint32_t rows, std::uint32_t columns,
                                                     const MaybeTuning& tuning = {});
  Status launch(std::uint32_t columns);
  std::uint64_t weight_bytes() const { return weight_bytes_; }

 private:
  ProductLoad(Device& device, MathMode math, const MaybeTuning& tuning);
  Operations operations_;
  Projection projection_;
  std::uint64_t weight_bytes_ = 0;
  Activation x_;
  Buffer y_;
};

// The heads of a layer.
struct HeadCounts {
  std::uint32_t heads = 9, kv_heads = 3, head_dim = 64;
  std::uint32_t columns() const { return heads * head_dim; }
};

// Attention of `rows` sequences of `length` positions, of which the last `chunk` are computed and
// the first `shared` lie in shared pages. It has so many layers that no cache holds a layer's keys
// and values until its next launch.
class AttentionLoad {
 public:
  static Result<std::unique_ptr<AttentionLoad>> create(Device& device, std::uint32_t rows,
                                                       std::uint32_t length, std::uint32_t chunk,
                                                       const MaybeTuning& tuning = {},
                                                       std::uint32_t shared = 0,
                                                       const KvCodecs& codecs = {},
                                                       const HeadCounts& heads = {});
  Status launch();            // attention of the next layer
  Status rotate_and_store();  // of the first layer
  bool rotates() const { return step_.attention[0].tiles.count != 0; }
  std::uint32_t layers() const { return static_cast<std::uint32_t>(kv_.size()); }
  std::uint64_t layer_bytes() const { return layer_bytes_; }

 private:
  AttentionLoad(Device& device, const MaybeTuning& tuning, const HeadCounts& heads);
  Operations operations_;
  StepTable step_;
  Buffer words_, rope_, qkv_;
  Activation out_;
  KvCodecs codecs_;
  std::vector<Buffer> kv_;
  std::uint64_t layer_bytes_ = 0;
  std::uint32_t layer_ = 0;
};

// Returns the seconds of one launch: the best of `windows` chains of `chain` launches, after one
// untimed chain.
Result<double> best_seconds(Device& device, std::uint32_t chain, int windows,
                            const std::function<Status()>& launch);

}  // namespace millrace::engine
