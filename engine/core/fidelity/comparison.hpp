#pragma once
// Compares rows of logits with those of the truth on the device; the kernel is
// kernels/fidelity/compare.cl. Thread safety: the device's owner thread.
#include <cstdint>
#include <span>
#include <vector>

#include "engine/core/device/device.hpp"
#include "engine/core/fidelity/figures.hpp"
#include "schemas/base/error.hpp"
#include "schemas/base/generation.hpp"

namespace millrace::engine {

// float32 [rows][stride], of which the first `vocabulary` columns are valid.
struct LogitRows {
  const Buffer* logits = nullptr;
  std::uint32_t stride = 0;
};

class Comparison {
 public:
  // `rows`: the most rows in one comparison. Errors: those of the device.
  static Result<Comparison> create(Device& device, std::uint32_t vocabulary, std::uint32_t rows);

  // Compares a row for each target, in order, and appends to `out`. Waits for the device. Errors:
  // invalid_value for logits that are not finite, naming `truth_name` if they are the truth's;
  // internal for more rows than create() was given; those of the device.
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
