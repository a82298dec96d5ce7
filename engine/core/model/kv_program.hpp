#pragma once
// The defines that compile kernels for the KV codecs of a layer (kernels/kv). Thread
// safety: pure functions.
#include <cstdint>
#include <vector>

#include "engine/core/device/device.hpp"
#include "engine/core/kv/policy.hpp"
#include "engine/core/model/math_mode.hpp"

namespace millrace::engine {

// Whether attention computes with this codec in integers (kernels/kv/README.md). This depends only
// on codec and math mode, so that no other row, tile or step can change a result's bits.
bool in_integers(const KvCodec& codec, MathMode math);

// A rotated codec's levels as bytes: levels[i] is about step * (bytes[i] - 128).
struct LevelBytes {
  std::vector<std::uint8_t> bytes;
  float step = 0;
};
LevelBytes level_bytes(const KvCodec& codec, std::uint32_t head_dim);

// Appends the defines of kernels/kv/layout.cl, which are those of every family. `math` is that of
// attention; a program that only stores keys and values may give any mode.
void add_kv_defines(ProgramSpec& program, const KvCodecs& codecs, std::uint32_t head_dim,
                    MathMode math);

}  // namespace millrace::engine
