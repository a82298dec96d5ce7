#include "engine/core/model/backend/cpu/scratch.hpp"

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

Status CpuScratch::reserve_attention(Device& device, const AttentionKind& kind,
                                     const AttentionLimits& limits, const AttentionItems& items) {
  // For the larger tiles.
  const std::uint64_t rows = std::uint64_t{limits.tile_tokens} * (kind.heads / limits.head_sets);
  const std::uint64_t record = RECORD_VECTORS_OF(rows, kind.value_dim()) * 16 * sizeof(float);
  const std::uint64_t bytes = std::uint64_t{items.partials} * limits.head_sets * record;
  if (partials.size_bytes() < bytes) {
    MILLRACE_ASSIGN(partials, device.allocate(bytes, "the partial sums of attention"));
  }
  const std::uint64_t words = WORK_CUTS + std::uint64_t{items.counters} * limits.head_sets;
  if (work.size_bytes() < words * 4) {
    MILLRACE_ASSIGN(work, device.allocate_zeroed(2 * words * 4, "the counters of attention"));
  }
  return {};
}

}  // namespace millrace::engine
