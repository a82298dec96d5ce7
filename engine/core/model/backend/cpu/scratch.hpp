#pragma once
// Memory that the groups of a launch share, in the cpu family. Launches run in order, so products,
// attention, experts and whole layers use the same. Each reserve function allocates once, or again
// when more is needed; the driver keeps the old buffers until their commands are done. Errors:
// out_of_memory, device_error. Thread safety: the device's owner thread.
#include <cstdint>

#include "engine/core/device/device.hpp"
#include "engine/core/model/backend/cpu/attention_units.hpp"
#include "engine/core/model/backend/target.hpp"
#include "schemas/base/error.hpp"

namespace millrace::engine {

struct CpuScratch {
  Buffer sums, claims;    // sums of gate and up by group; counters for chunks of products
  Buffer partials, work;  // partial sums of cut attention tiles; counters of attention

  Status reserve_sums(Device& device);
  // For the units of a step, of layers of one kind.
  Status reserve_attention(Device& device, const AttentionKind& kind, const AttentionLimits& limits,
                           const AttentionItems& items);
};

}  // namespace millrace::engine
