#pragma once
// The means that are subtracted from keys before they are stored: a model's mean keys after
// rotation.
//
// Keys of a head have much in common before rotation, and rotation turns this common part with the
// position. So each segment of 256 positions has a mean of its own: the mean key rotated to each
// position of the segment, averaged. Channels that turn slowly keep their mean; channels that turn
// within a segment average to nothing. All keys of a segment lack the same mean, so attention adds
// it back with one product for each query and segment (kernels/attention/generic.cl). Thread
// safety: plain values.
#include <cstdint>
#include <span>
#include <vector>

#include "engine/core/device/device.hpp"
#include "engine/core/families/spec.hpp"
#include "engine/core/kv/key_means.hpp"

namespace millrace::engine {

class KeyCenter {
 public:
  // For positions 0 to `positions` - 1. The mean of the last segment is over all its 256 positions,
  // also those beyond, so that the mean of a key depends on its position alone.
  KeyCenter(const AttentionSpec& attention, std::uint32_t positions);

  // Rotates one layer's means [kv_heads][head_dim] and returns [segments][kv_heads][head_dim].
  std::vector<float> table(std::span<const float> means) const;

 private:
  RopeSpec rope_;
  std::uint32_t head_dim_, segments_;
  std::vector<double> turns_;  // [segments][rope.dim / 2][2]: cosine, sine
};

// The tables of all layers on the device, empty for those that store no keys. Errors:
// out_of_memory, device_error.
Result<std::vector<Buffer>> load_center(Device& device, const ModelSpec& spec,
                                        const KeyMeans& means, std::uint32_t positions);

}  // namespace millrace::engine
