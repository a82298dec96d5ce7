#include "engine/core/model/cache_room.hpp"

#include <algorithm>
#include <utility>

#include "engine/core/model/key_probe.hpp"
#include "engine/core/model/kv_shape.hpp"
#include "schemas/base/limits.hpp"

namespace millrace::engine {

std::uint64_t left_for_cache(const DeviceInfo& device, std::uint64_t used_bytes) {
  const std::uint64_t margin = device.global_bytes / 16 + 512 * limits::MiB;
  return device.global_bytes - std::min(device.global_bytes, used_bytes + margin);
}

Result<KvCache> make_cache(Device& device, const ModelSpec& spec, const KvLayers& kv,
                           std::uint64_t bytes, const CacheLoad& load, std::string_view smaller_kv,
                           const LayerRange& range) {
  auto made = KvCache::create(device, cache_shape(spec, kv.layers), bytes, load, range);
  if (!made) return fail(without_room(std::move(made).error(), smaller_kv));
  return made;
}

Result<KvCache> make_small_cache(Device& device, const ModelSpec& spec, const KvLayers& kv,
                                 std::string_view smaller_kv, const LayerRange& range) {
  const CacheShape shape = cache_shape(spec, kv.layers);
  const std::uint64_t bytes = probe_pages * shape.page_bytes() + 3 * shape.state_bytes();
  constexpr std::uint32_t tokens = probe_pages * kv_page_tokens;  // windowed groups hold them, too
  return make_cache(device, spec, kv, bytes, {1, tokens, tokens}, smaller_kv, range);
}

Error without_room(Error error, std::string_view hint) {
  if (error.code == Code::out_of_memory) error.hint = hint;
  return error;
}

}  // namespace millrace::engine
