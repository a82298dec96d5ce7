#pragma once
// Makes the memory of keys and values, of a given size or of what a device has left.
// Errors: those of KvCache. Thread safety: the device's owner thread.
#include <cstdint>
#include <string_view>

#include "engine/core/device/device.hpp"
#include "engine/core/families/spec.hpp"
#include "engine/core/kv/kv_cache.hpp"
#include "schemas/base/error.hpp"

namespace millrace::engine {

// What of a device's memory a cache may take when `used_bytes` of it are taken: the rest, less a
// margin for what a driver and its programs need, and for small buffers that come later.
std::uint64_t left_for_cache(const DeviceInfo& device, std::uint64_t used_bytes);

// `bytes` are those of all layers, of which the cache has those in `range`. `smaller_kv` is the
// hint when the device has not so much memory.
Result<KvCache> make_cache(Device& device, const ModelSpec& spec, const KvLayers& kv,
                           std::uint64_t bytes, const CacheLoad& load, std::string_view smaller_kv,
                           const LayerRange& range = {});
// A cache that holds the tokens of the probe (key_probe.hpp).
Result<KvCache> make_small_cache(Device& device, const ModelSpec& spec, const KvLayers& kv,
                                 std::string_view smaller_kv, const LayerRange& range = {});

// Adds the option that would need less memory to an error of memory.
Error without_room(Error error, std::string_view hint);

}  // namespace millrace::engine
