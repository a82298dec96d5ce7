#pragma once
// The numeric fingerprint: equal fingerprints mean equal bits for equal jobs (ARCHITECTURE.md,
// "Determinism"). Thread safety: pure functions.
#include <string>

#include "engine/core/device/device.hpp"
#include "engine/core/gguf/file.hpp"
#include "engine/core/model/math_mode.hpp"
#include "schemas/base/hash.hpp"

namespace millrace::engine {

// The version of the order in which the kernels sum. Raise it with any edit that changes a bit of a
// result.
inline constexpr std::uint32_t reduction_layout_version = 4;

Hash128 hash_model_file(const GgufFile& file);
Hash128 hash_kernel_sources();

// 32 hex digits: a hash of model file, KV policy, math mode, reduction layout, device, driver and
// kernel sources.
std::string numeric_fingerprint(const GgufFile& file, const std::string& kv, MathMode math,
                                const DeviceInfo& device);

}  // namespace millrace::engine
