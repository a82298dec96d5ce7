#include "engine/core/model/stored_keys.hpp"

#include "engine/core/model/kv_shape.hpp"

namespace millrace::engine {

StoredKeys::StoredKeys(Model& model, const ModelSpec& spec)
    : model_(&model),
      cache_(cache_shape(spec, std::vector<KvCodecs>(spec.layer_count()))),
      key_(cache_.head_dim) {}

Status StoredKeys::read(Device& device, std::span<const PageId> pages) {
  bytes_.resize(pages.size() * cache_.page_bytes());
  const auto everywhere = in_all_groups(pages, cache_.groups().size());
  MILLRACE_ASSIGN(const auto events, model_->read_pages(everywhere, bytes_));
  for (const DeviceEvent& event : events) MILLRACE_TRY(device.wait(event));
  return {};
}

// All layers store halves, so a page has the same size in each.
std::span<const float> StoredKeys::key(std::uint32_t layer, std::uint32_t head,
                                       std::uint32_t token) {
  const std::uint64_t bytes = cache_.layer_page_bytes(layer), layers = cache_.layers.size();
  const std::uint64_t at = (token / kv_page_tokens * layers + layer) * bytes;
  model_->read_key(std::span(bytes_).subspan(at, bytes), head, token % kv_page_tokens, key_);
  return key_;
}

}  // namespace millrace::engine
