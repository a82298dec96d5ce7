#include "engine/core/model/backend/cpu/scratch.hpp"

#include <algorithm>

#include "kernels/attention/work.h"
#include "kernels/quantize/code_block.h"

namespace millrace::engine {

// Allocates the counters by which groups claim chunks, and for each group the sums of gate and up
// of as many columns as kernels/matmul/integer_tiles.cl activates together.
Status CpuScratch::reserve_sums(Device& device) {
  if (sums) return {};
  const std::uint64_t bytes =
      std::uint64_t{STRIP_FLOATS} * sizeof(float) * device.info().compute_units;
  MILLRACE_ASSIGN(sums, device.allocate_zeroed(bytes, "the sums of gate and up"));
  MILLRACE_ASSIGN(claims, device.allocate_zeroed(2 * 4, "the chunks of products"));
  return {};
}

Status CpuScratch::reserve_attention(Device& device, const AttentionSpec& heads,
                                     const AttentionLimits& limits, const StepTable& step) {
  // For the larger tiles.
  const std::uint64_t rows = std::uint64_t{limits.tile_tokens} * (heads.heads / heads.kv_heads);
  const std::uint64_t record = RECORD_VECTORS_OF(rows, heads.head_dim) * 16 * sizeof(float);
  std::uint32_t most_partials = 0, most_counters = 0;
  for (const AttentionItems& items : step.attention) {
    most_partials = std::max(most_partials, items.partials);
    most_counters = std::max(most_counters, items.counters);
  }
  const std::uint64_t bytes = most_partials * heads.kv_heads * record;
  if (partials.size_bytes() < bytes) {
    MILLRACE_ASSIGN(partials, device.allocate(bytes, "the partial sums of attention"));
  }
  const std::uint64_t words = WORK_CUTS + std::uint64_t{most_counters} * heads.kv_heads;
  if (work.size_bytes() < words * 4) {
    MILLRACE_ASSIGN(work, device.allocate_zeroed(2 * words * 4, "the counters of attention"));
  }
  return {};
}

}  // namespace millrace::engine
