#pragma once
// The device memory of a model's KV pages, and of the states of its recurrent layers. Each layer
// that stores any has a buffer of its own, which keeps every allocation under the device's limit; a
// page id means the same page in each layer of a cache group (cache_shape.hpp). CachePools knows
// which page belongs to which sequence; kernels/kv/layout.cl defines the layout inside a page.
// Errors: kv_exceeded, out_of_memory, device_error. Thread safety: the device's owner thread.
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "engine/core/device/device.hpp"
#include "engine/core/kv/cache_shape.hpp"
#include "engine/core/model/plan.hpp"
#include "schemas/base/error.hpp"

namespace millrace::engine {

class KvCache {
 public:
  // Creates as many pages as CacheShape::divide says and, layer by layer, the device's largest
  // allocation allows. The bytes are those of all layers; `range` are the layers that this cache
  // has. Caches of the other layers, on devices with the same limits, have as many pages.
  static Result<KvCache> create(Device& device, const CacheShape& shape, std::uint64_t bytes,
                                const CacheLoad& load = {}, const LayerRange& range = {});

  const CacheShape& shape() const { return shape_; }
  const std::vector<PoolSize>& groups() const { return sizes_; }
  std::uint32_t state_count() const { return state_count_; }
  std::vector<PoolSize> pools() const;  // of all groups, and of states if there are any
  std::uint32_t page_count() const { return sizes_.front().pages; }  // of group 0
  // For people: how many tokens each group holds, and how many states there are; empty if there is
  // one group and no state.
  std::string text() const;
  // A layer's pages; empty if it stores nothing, or is not in the range.
  const Buffer& layer(std::uint32_t index) const { return layers_[index]; }
  // The states of a recurrent layer, CacheShape::states bytes each, one after the other.
  const Buffer& states(std::uint32_t index) const { return states_[index]; }
  Status copy_page(Device& device, const PageCopy& copy) const;
  // Enqueue copies of pages to or from host memory. `pages` has one id of each group for a page, or
  // no_page where that part is not copied. The memory holds the pages one after the other, each as
  // its layers in order, and must stay valid until all events have been waited for. Layers outside
  // of the range have a place in it, which is not touched.
  Result<std::vector<DeviceEvent>> read_pages(Device& device, std::span<const PageId> pages,
                                              std::span<std::byte> into) const;
  Result<std::vector<DeviceEvent>> write_pages(Device& device, std::span<const PageId> pages,
                                               std::span<const std::byte> bytes) const;
  // The same for one state, as its layers in order.
  Result<std::vector<DeviceEvent>> read_state(Device& device, PageId state,
                                              std::span<std::byte> into) const;
  Result<std::vector<DeviceEvent>> write_state(Device& device, PageId state,
                                               std::span<const std::byte> bytes) const;

 private:
  // A run of pages or states with consecutive ids in one layer's buffer, and where the first lies
  // in host memory.
  struct Stretch {
    const Buffer* buffer = nullptr;
    PageId first = 0;
    std::size_t count = 0, host_at = 0;
    std::uint64_t bytes = 0;       // of a page in the layer
    std::uint64_t host_pitch = 0;  // of a page in all layers
  };
  using Events = Result<std::vector<DeviceEvent>>;
  Status create_states(Device& device, std::uint64_t bytes, const CacheLoad& load,
                       const LayerRange& range);
  Result<std::vector<Stretch>> stretches(std::span<const PageId> pages, std::size_t bytes) const;
  Result<std::vector<Stretch>> state_stretches(PageId state, std::size_t bytes) const;
  static Events read(Device& device, const std::vector<Stretch>& parts, std::byte* into);
  static Events write(Device& device, const std::vector<Stretch>& parts, const std::byte* from);

  CacheShape shape_;
  std::vector<LayerGroup> groups_;
  std::vector<PoolSize> sizes_;  // of each group
  std::vector<Buffer> layers_, states_;
  std::uint32_t state_count_ = 0;
};

}  // namespace millrace::engine
