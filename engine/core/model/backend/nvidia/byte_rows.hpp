#pragma once
// Makes bytes of rows, or of codes, for products of math int8 (kernels/quantize/bytes.cl). Thread
// safety: the device's owner thread.
#include <cstdint>
#include <map>
#include <utility>

#include "engine/core/model/backend/backend.hpp"

namespace millrace::engine {

class ByteRows {
 public:
  explicit ByteRows(const Target& target) : target_(&target) {}

  // Compiles what run() launches for so many columns, a multiple of 32; costs nothing if that is
  // done.
  Status prepare(std::uint32_t columns);
  Status run(const BytesCall& call);

 private:
  const Target* target_;
  std::map<std::pair<std::uint32_t, bool>, Kernel> kernels_;  // by columns, and whether of codes
};

}  // namespace millrace::engine
