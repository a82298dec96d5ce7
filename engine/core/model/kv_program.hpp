#pragma once
// The sources and defines by which kernels know how a layer's keys and values are stored
// (kernels/kv). Thread safety: pure functions.
#include <cstdint>

#include "engine/core/device/device.hpp"
#include "engine/core/kv/policy.hpp"

namespace millrace::engine {

// Appends kernels/kv/layout.cl and what the codecs need besides. Such a program must define
// HEAD_DIM, HEADS and KV_HEADS.
void add_kv_sources(ProgramSpec& program, const KvCodecs& codecs, std::uint32_t head_dim,
                    Family family);

}  // namespace millrace::engine
