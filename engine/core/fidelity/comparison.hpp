#pragma once
// Compares rows of logits with the truth's on the device; the kernel is
// kernels/fidelity/compare.cl. Thread safety: the device's owner thread.
#include <cstdint>
#include <span>
#include <vector>

#include "engine/core/device/device.hpp"
#include "engine/core/fidelity/figures.hpp"
#include "schemas/base/error.hpp"
#include "schemas/base/generation.hpp"

namespace millrace::engine {

// float32 [rows][stride], of which the first `vocabulary` columns count.
struct LogitRows {
  const Buffer* logits = nullptr;
  std::uint32_t stride = 0;
};

class Comparison {
 public:
  // At most so many rows at once. Errors: those of the device.
  static Result<Comparison> create(Device& device, std::uint32_t vocabulary, std::uint32_t rows);

  // A row for each target, in order; appends to `out`. Waits for the device. Errors: invalid_value
  // for logits that are not finite, in the words of `truth_name` where they are the truth's;
  // internal for more rows than were said; those of the device.
  Status compare(const LogitRows& truth, const LogitRows& ours, std::span<const TokenId> targets,
                 std::string_view truth_name, std::vector<PositionFidelity>& out);

 private:
  Comparison() = default;

  Device* device_ = nullptr;
  std::uint32_t vocabulary_ = 0, rows_ = 0, items_ = 1;
  Kernel kernel_;
  Buffer targets_, out_;
};

}  // namespace millrace::engine
