#include "engine/core/model/stored_keys.hpp"

#include "engine/core/kv/kv_cache.hpp"
#include "engine/core/model/kv_shape.hpp"

namespace millrace::engine {

StoredKeys::StoredKeys(Model& model, const ModelSpec& spec)
    : model_(&model),
      cache_(cache_shape(spec, std::vector<KvCodecs>(spec.layer_count()))),
      places_(cache_.layer_places()) {}

Status StoredKeys::read(Device& device, std::span<const PageId> pages) {
  bytes_.resize(pages.size() * places_.back());
  const auto everywhere = in_all_groups(pages, cache_.groups().size());
  MILLRACE_ASSIGN(const auto events, model_->read_pages(everywhere, bytes_));
  for (const DeviceEvent& event : events) MILLRACE_TRY(device.wait(event));
  return {};
}

std::span<const float> StoredKeys::key(std::uint32_t layer, std::uint32_t head,
                                       std::uint32_t token) {
  const std::uint64_t at = token / kv_page_tokens * places_.back() + places_[layer];
  const std::uint64_t bytes = places_[layer + 1] - places_[layer];
  key_.resize(cache_.shape.layers[layer].head_dim);
  model_->read_key(std::span(bytes_).subspan(at, bytes), head, token % kv_page_tokens, key_);
  return key_;
}

}  // namespace millrace::engine
