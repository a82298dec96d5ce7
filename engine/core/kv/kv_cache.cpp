#include "engine/core/kv/kv_cache.hpp"

#include <algorithm>
#include <limits>
#include <string>
#include <utility>

#include "schemas/base/log.hpp"
#include "schemas/base/number_text.hpp"

namespace millrace::engine {

Result<KvCache> KvCache::create(Device& device, const CacheShape& shape, std::uint64_t bytes,
                                const CacheLoad& load, const LayerRange& range) {
  const std::uint64_t memory = device.info().global_bytes;
  const std::uint64_t share = shape.share_of(range, bytes);
  if (share > memory) {
    return fail(Code::out_of_memory,
                "the KV cache needs " + size_text(share) + ", the device has " + size_text(memory),
                "lower --kv-memory");
  }
  MILLRACE_TRY(shape.check_room(bytes));
  KvCache cache;
  cache.shape_ = shape;
  cache.groups_ = shape.groups();
  const std::vector<std::uint64_t> wanted = shape.divide(bytes, load);
  for (std::size_t i = 0; i < cache.groups_.size(); ++i) {
    std::uint64_t largest = 1;
    for (const std::uint32_t layer : cache.groups_[i].layers) {
      largest = std::max(largest, shape.layer_page_bytes(layer));
    }
    const std::uint64_t in_layer = device.info().max_allocation_bytes / largest;
    const std::uint64_t pages =
        std::min({wanted[i], in_layer, std::uint64_t{std::numeric_limits<std::int32_t>::max()}});
    if (pages == 0) {
      return fail(Code::kv_exceeded,
                  "the device's largest allocation of " +
                      size_text(device.info().max_allocation_bytes) + " holds no page of " +
                      size_text(largest) + " a layer",
                  "choose another --device");
    }
    if (pages < wanted[i]) {
      log_warn("the device's largest allocation limits the KV pool",
               {{"pages", pages}, {"wanted_pages", wanted[i]}});
    }
    cache.sizes_.push_back({static_cast<std::uint32_t>(pages), cache.groups_[i].window});
  }
  cache.layers_.resize(shape.layers.size());
  for (std::size_t i = 0; i < cache.groups_.size(); ++i) {
    for (const std::uint32_t layer : cache.groups_[i].layers) {
      if (!range.has(layer)) continue;
      MILLRACE_ASSIGN(cache.layers_[layer],
                      device.allocate(cache.sizes_[i].pages * shape.layer_page_bytes(layer),
                                      "the KV pages of layer " + std::to_string(layer)));
    }
  }
  MILLRACE_TRY(cache.create_states(device, bytes, load, range));
  return cache;
}

Status KvCache::create_states(Device& device, std::uint64_t bytes, const CacheLoad& load,
                              const LayerRange& range) {
  states_.resize(shape_.layers.size());
  if (shape_.state_bytes() == 0) return {};
  const std::uint64_t largest = std::ranges::max(shape_.states);
  const std::uint64_t wanted = shape_.state_count(bytes, load);
  const std::uint64_t count = std::min(wanted, device.info().max_allocation_bytes / largest);
  if (count == 0) {
    return fail(Code::kv_exceeded,
                "the device's largest allocation of " +
                    size_text(device.info().max_allocation_bytes) + " holds no state of " +
                    size_text(largest) + " a layer",
                "choose another --device");
  }
  if (count < load.sequences) {
    log_warn("the KV memory holds fewer states than sequences may run at once",
             {{"states", count}, {"sequences", load.sequences}});
  }
  state_count_ = static_cast<std::uint32_t>(count);
  for (std::size_t layer = 0; layer < states_.size(); ++layer) {
    if (shape_.states[layer] == 0 || !range.has(layer)) continue;
    MILLRACE_ASSIGN(states_[layer],
                    device.allocate(count * shape_.states[layer],
                                    "the states of layer " + std::to_string(layer)));
  }
  return {};
}

std::vector<PoolSize> KvCache::pools() const {
  std::vector<PoolSize> out = sizes_;
  for (std::size_t i = 0; i < out.size(); ++i) out[i].page_bytes = shape_.page_bytes(groups_[i]);
  if (state_count_ > 0) out.push_back({.pages = state_count_, .states = true});
  return out;
}

std::string KvCache::text() const {
  std::string out;
  for (std::size_t i = 0; groups_.size() > 1 && i < groups_.size(); ++i) {
    const std::uint64_t tokens = std::uint64_t{sizes_[i].pages} * kv_page_tokens;
    if (i > 0) out += ", ";
    out += std::to_string(groups_[i].layers.size());
    out += i == 0 ? " layers" : " of window " + std::to_string(groups_[i].window);
    out += " hold " + std::to_string(tokens) + (i == 0 ? " tokens" : "");
  }
  if (state_count_ == 0) return out;
  if (groups_.size() == 1 && !groups_[0].layers.empty()) {
    out = std::to_string(groups_[0].layers.size()) + " layers hold " +
          std::to_string(std::uint64_t{sizes_[0].pages} * kv_page_tokens) + " tokens";
  }
  return out + (out.empty() ? "" : ", ") + std::to_string(state_count_) + " states of " +
         size_text(shape_.state_bytes());
}

Status KvCache::copy_page(Device& device, const PageCopy& copy) const {
  const std::uint32_t pages = copy.group < sizes_.size() ? sizes_[copy.group].pages : 0;
  if (copy.from >= pages || copy.to >= pages) {
    return fail(Code::internal, "copy of page " + std::to_string(copy.from) + " to " +
                                    std::to_string(copy.to) + " in a pool of " +
                                    std::to_string(pages));
  }
  if (copy.from == copy.to) return {};
  for (const std::uint32_t layer : groups_[copy.group].layers) {
    if (!layers_[layer]) continue;
    const std::uint64_t bytes = shape_.layer_page_bytes(layer);
    MILLRACE_TRY(
        device.copy(layers_[layer], copy.from * bytes, layers_[layer], copy.to * bytes, bytes));
  }
  return {};
}

// Copies of several pages go together where their ids follow one another.
Result<std::vector<KvCache::Stretch>> KvCache::stretches(std::span<const PageId> pages,
                                                         std::size_t bytes) const {
  const std::size_t groups = groups_.size(), count = pages.size() / groups;
  const std::uint64_t page_bytes = shape_.page_bytes();
  const std::vector<std::uint64_t> places = shape_.layer_places();
  bool outside = pages.size() % groups != 0 || bytes != count * page_bytes;
  std::vector<Stretch> out;
  for (std::size_t group = 0; group < groups && !outside; ++group) {
    const auto at = [&](std::size_t i) { return pages[i * groups + group]; };
    for (std::size_t first = 0, next = 0; first < count; first = next) {
      next = first + 1;
      if (at(first) == no_page) continue;
      while (next < count && at(next) == at(first) + (next - first)) ++next;
      outside = outside || at(next - 1) >= sizes_[group].pages;
      for (const std::uint32_t layer : groups_[group].layers) {
        if (!layers_[layer]) continue;
        out.push_back({&layers_[layer], at(first), next - first, first * page_bytes + places[layer],
                       shape_.layer_page_bytes(layer), page_bytes});
      }
    }
  }
  if (!outside) return out;
  return fail(Code::internal, "a copy of pages outside the pool, or with memory of another size");
}

Result<std::vector<KvCache::Stretch>> KvCache::state_stretches(PageId state,
                                                               std::size_t bytes) const {
  if (state >= state_count_ || bytes != shape_.state_bytes()) {
    return fail(Code::internal,
                "a copy of a state outside the pool, or with memory of another size");
  }
  std::vector<Stretch> out;
  std::size_t host_at = 0;
  for (std::size_t layer = 0; layer < states_.size(); ++layer) {
    const std::uint64_t of_layer = shape_.states[layer];
    if (states_[layer]) out.push_back({&states_[layer], state, 1, host_at, of_layer, of_layer});
    host_at += of_layer;
  }
  return out;
}

KvCache::Events KvCache::read(Device& device, const std::vector<Stretch>& parts, std::byte* into) {
  std::vector<DeviceEvent> events;
  for (const auto& [buffer, first, count, host_at, bytes, pitch] : parts) {
    auto event =
        device.enqueue_read_rows(*buffer, first * bytes, into + host_at, {bytes, count, pitch});
    if (!event) {
      static_cast<void>(device.finish());  // enqueued copies still use the memory
      return fail(event.error());
    }
    events.push_back(*std::move(event));
  }
  return events;
}

KvCache::Events KvCache::write(Device& device, const std::vector<Stretch>& parts,
                               const std::byte* from) {
  std::vector<DeviceEvent> events;
  for (const auto& [buffer, first, count, host_at, bytes, pitch] : parts) {
    auto event =
        device.enqueue_write_rows(*buffer, first * bytes, from + host_at, {bytes, count, pitch});
    if (!event) {
      static_cast<void>(device.finish());
      return fail(event.error());
    }
    events.push_back(*std::move(event));
  }
  return events;
}

Result<std::vector<DeviceEvent>> KvCache::read_pages(Device& device, std::span<const PageId> pages,
                                                     std::span<std::byte> into) const {
  MILLRACE_ASSIGN(const auto parts, stretches(pages, into.size()));
  return read(device, parts, into.data());
}

Result<std::vector<DeviceEvent>> KvCache::write_pages(Device& device, std::span<const PageId> pages,
                                                      std::span<const std::byte> from) const {
  MILLRACE_ASSIGN(const auto parts, stretches(pages, from.size()));
  return write(device, parts, from.data());
}

Result<std::vector<DeviceEvent>> KvCache::read_state(Device& device, PageId state,
                                                     std::span<std::byte> into) const {
  MILLRACE_ASSIGN(const auto parts, state_stretches(state, into.size()));
  return read(device, parts, into.data());
}

Result<std::vector<DeviceEvent>> KvCache::write_state(Device& device, PageId state,
                                                      std::span<const std::byte> from) const {
  MILLRACE_ASSIGN(const auto parts, state_stretches(state, from.size()));
  return write(device, parts, from.data());
}

}  // namespace millrace::engine
