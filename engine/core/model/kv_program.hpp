#pragma once
// The sources and defines by which kernels know how a layer's keys and values are stored
// (kernels/kv). Thread safety: pure functions.
#include <cstdint>
#include <vector>

#include "engine/core/device/device.hpp"
#include "engine/core/kv/policy.hpp"
#include "engine/core/model/math_mode.hpp"

namespace millrace::engine {

// Whether attention takes what is stored so in integers (kernels/kv/README.md). A function of codec
// and math alone, so that no other row, tile or step can change a result's bits.
bool in_integers(const KvCodec& codec, MathMode math);

// What a rotated codec's integers stand for: levels[i] is about step * (bytes[i] - 128).
struct LevelBytes {
  std::vector<std::uint8_t> bytes;
  float step = 0;
};
LevelBytes level_bytes(const KvCodec& codec, std::uint32_t head_dim);

// Appends kernels/kv/layout.cl and what the codecs need besides, for attention in such a math mode;
// what only stores keys and values takes any. Such a program must define HEAD_DIM, HEADS and
// KV_HEADS, and on CPUs DOT.
void add_kv_sources(ProgramSpec& program, const KvCodecs& codecs, std::uint32_t head_dim,
                    Family family, MathMode math);

}  // namespace millrace::engine
