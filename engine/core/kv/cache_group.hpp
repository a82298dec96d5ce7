#pragma once
// The device memory of one cache group: layers that keep the same positions and share one page
// table per sequence. A llama has one group with all its layers. Each layer has a buffer of its
// own, which keeps every allocation under the device's limit; a page id means the same page in each
// of them. PagePool knows which page belongs to which sequence; kernels/kv/layout.cl defines the
// layout inside a page. Errors: kv_exceeded, out_of_memory, device_error. Thread safety: the
// device's owner thread.
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "engine/core/device/device.hpp"
#include "engine/core/kv/policy.hpp"
#include "engine/core/model/plan.hpp"
#include "schemas/base/error.hpp"

namespace millrace::engine {

struct CacheShape {
  std::uint32_t kv_heads = 0, head_dim = 0;
  std::vector<KvCodecs> layers{};  // the codecs of each layer
  // Bytes of one page in one layer, and in all layers.
  std::uint64_t layer_page_bytes(std::size_t layer) const {
    return millrace::engine::layer_page_bytes(layers[layer], kv_heads, head_dim);
  }
  std::uint64_t page_bytes() const;
  Status check_room(std::uint64_t bytes) const;  // kv_exceeded if they hold no page
};

class CacheGroup {
 public:
  // Creates as many pages as fit in `bytes` and, layer by layer, in the device's largest
  // allocation.
  static Result<CacheGroup> create(Device& device, const CacheShape& shape, std::uint64_t bytes);

  const CacheShape& shape() const { return shape_; }
  std::uint32_t page_count() const { return page_count_; }
  const Buffer& layer(std::uint32_t index) const { return layers_[index]; }
  Status copy_page(Device& device, PageId from, PageId to) const;
  // Enqueue copies of pages to or from host memory, which holds the pages one after the other, each
  // as its layers in order. The memory must stay valid until all events have been waited for.
  Result<std::vector<DeviceEvent>> read_pages(Device& device, std::span<const PageId> pages,
                                              std::span<std::byte> into) const;
  Result<std::vector<DeviceEvent>> write_pages(Device& device, std::span<const PageId> pages,
                                               std::span<const std::byte> bytes) const;

 private:
  Status check_pages(std::span<const PageId> pages, std::size_t bytes) const;

  CacheShape shape_;
  std::uint32_t page_count_ = 0;
  std::vector<Buffer> layers_;
};

}  // namespace millrace::engine
