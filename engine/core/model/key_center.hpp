#pragma once
// What is taken off keys before they are stored: a model's mean keys as they stand after rotation.
//
// Keys of a head have much in common before they are rotated, and rotation turns it with the
// position. A key is stored less the mean of its segment: the mean key turned to every position of
// the segment's 256, averaged. Channels that turn slowly are met at any distance, those that turn
// within a segment average to nothing. All keys of a segment lack the same, so attention adds one
// product a query and segment back (kernels/attention/generic.cl). Thread safety: plain values.
#include <cstdint>
#include <span>
#include <vector>

#include "engine/core/device/device.hpp"
#include "engine/core/kv/key_means.hpp"
#include "engine/core/model/spec.hpp"

namespace millrace::engine {

class KeyCenter {
 public:
  // For positions 0 to `positions` - 1. Of a segment all 256 count, also beyond: what is taken off
  // a key depends on its position alone.
  KeyCenter(const ModelSpec& spec, std::uint32_t positions);

  // From means that are not rotated, [kv_heads][head_dim]: [segments][kv_heads][head_dim].
  std::vector<float> table(std::span<const float> means) const;

 private:
  const ModelSpec* spec_;
  std::uint32_t segments_;
  std::vector<double> turns_;  // [segments][rope_dim / 2][2]: cosine, sine
};

// The tables of all layers on the device. Errors: out_of_memory, device_error.
Result<std::vector<Buffer>> load_center(Device& device, const ModelSpec& spec,
                                        const KeyMeans& means, std::uint32_t positions);

}  // namespace millrace::engine
