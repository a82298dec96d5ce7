#include "engine/core/kv/cache_group.hpp"

#include <algorithm>
#include <limits>
#include <string>
#include <utility>

#include "schemas/base/log.hpp"
#include "schemas/base/number_text.hpp"

namespace millrace::engine {
namespace {

// Calls `move(first, count)` for each run of pages with consecutive ids, so that they are copied
// together; `first` is an index of `pages`.
template <class Move>
Status for_stretches(std::span<const PageId> pages, Move move) {
  for (std::size_t first = 0; first < pages.size();) {
    std::size_t count = 1;
    while (first + count < pages.size() && pages[first + count] == pages[first] + count) ++count;
    MILLRACE_TRY(move(first, count));
    first += count;
  }
  return {};
}

}  // namespace

std::uint64_t CacheShape::page_bytes() const {
  std::uint64_t bytes = 0;
  for (std::size_t i = 0; i < layers.size(); ++i) bytes += layer_page_bytes(i);
  return bytes;
}

Status CacheShape::check_room(std::uint64_t bytes) const {
  if (bytes >= page_bytes()) return {};
  return fail(Code::kv_exceeded,
              "--kv-memory of " + size_text(bytes) + " holds no page: one page of " +
                  std::to_string(kv_page_tokens) + " tokens takes " + size_text(page_bytes()),
              "raise --kv-memory");
}

Result<CacheGroup> CacheGroup::create(Device& device, const CacheShape& shape,
                                      std::uint64_t bytes) {
  const std::uint64_t memory = device.info().global_bytes;
  if (bytes > memory) {
    return fail(Code::out_of_memory,
                "the KV cache needs " + size_text(bytes) + ", the device has " + size_text(memory),
                "lower --kv-memory");
  }
  std::uint64_t largest = 1;
  for (std::size_t i = 0; i < shape.layers.size(); ++i) {
    largest = std::max(largest, shape.layer_page_bytes(i));
  }
  const std::uint64_t in_layer = device.info().max_allocation_bytes / largest;
  const std::uint64_t wanted = bytes / shape.page_bytes();
  const std::uint64_t pages =
      std::min({wanted, in_layer, std::uint64_t{std::numeric_limits<std::int32_t>::max()}});
  MILLRACE_TRY(shape.check_room(bytes));
  if (pages == 0) {
    return fail(Code::kv_exceeded,
                "the device's largest allocation of " +
                    size_text(device.info().max_allocation_bytes) + " holds no page of " +
                    size_text(largest) + " a layer",
                "choose another --device");
  }
  if (pages < wanted) {
    log_warn("the device's largest allocation limits the KV pool",
             {{"pages", pages}, {"wanted_pages", wanted}});
  }
  CacheGroup group;
  group.shape_ = shape;
  group.page_count_ = static_cast<std::uint32_t>(pages);
  group.layers_.reserve(shape.layers.size());
  for (std::size_t i = 0; i < shape.layers.size(); ++i) {
    MILLRACE_ASSIGN(Buffer buffer, device.allocate(pages * shape.layer_page_bytes(i),
                                                   "the KV pages of layer " + std::to_string(i)));
    group.layers_.push_back(std::move(buffer));
  }
  return group;
}

Status CacheGroup::copy_page(Device& device, PageId from, PageId to) const {
  if (from >= page_count_ || to >= page_count_) {
    return fail(Code::internal, "copy of page " + std::to_string(from) + " to " +
                                    std::to_string(to) + " in a pool of " +
                                    std::to_string(page_count_));
  }
  if (from == to) return {};
  for (std::size_t i = 0; i < layers_.size(); ++i) {
    const std::uint64_t bytes = shape_.layer_page_bytes(i);
    MILLRACE_TRY(device.copy(layers_[i], from * bytes, layers_[i], to * bytes, bytes));
  }
  return {};
}

Status CacheGroup::check_pages(std::span<const PageId> pages, std::size_t bytes) const {
  const auto outside = [&](PageId page) { return page >= page_count_; };
  if (std::ranges::any_of(pages, outside) || bytes != pages.size() * shape_.page_bytes()) {
    return fail(Code::internal, "a copy of pages outside the pool, or with memory of another size");
  }
  return {};
}

Result<std::vector<DeviceEvent>> CacheGroup::read_pages(Device& device,
                                                        std::span<const PageId> pages,
                                                        std::span<std::byte> into) const {
  MILLRACE_TRY(check_pages(pages, into.size()));
  std::vector<DeviceEvent> events;
  const Status status = for_stretches(pages, [&](std::size_t first, std::size_t count) -> Status {
    std::byte* at = into.data() + first * shape_.page_bytes();
    for (std::size_t i = 0; i < layers_.size(); ++i) {
      const std::uint64_t bytes = shape_.layer_page_bytes(i);
      MILLRACE_ASSIGN(DeviceEvent event,
                      device.enqueue_read_rows(layers_[i], pages[first] * bytes, at,
                                               {bytes, count, shape_.page_bytes()}));
      events.push_back(std::move(event));
      at += bytes;
    }
    return {};
  });
  if (status) return events;
  static_cast<void>(device.finish());  // enqueued copies still use the memory
  return fail(status.error());
}

Result<std::vector<DeviceEvent>> CacheGroup::write_pages(Device& device,
                                                         std::span<const PageId> pages,
                                                         std::span<const std::byte> from) const {
  MILLRACE_TRY(check_pages(pages, from.size()));
  std::vector<DeviceEvent> events;
  const Status status = for_stretches(pages, [&](std::size_t first, std::size_t count) -> Status {
    const std::byte* at = from.data() + first * shape_.page_bytes();
    for (std::size_t i = 0; i < layers_.size(); ++i) {
      const std::uint64_t bytes = shape_.layer_page_bytes(i);
      MILLRACE_ASSIGN(DeviceEvent event,
                      device.enqueue_write_rows(layers_[i], pages[first] * bytes, at,
                                                {bytes, count, shape_.page_bytes()}));
      events.push_back(std::move(event));
      at += bytes;
    }
    return {};
  });
  if (status) return events;
  static_cast<void>(device.finish());
  return fail(status.error());
}

}  // namespace millrace::engine
