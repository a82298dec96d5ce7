#pragma once
// What the layers of a model store of each token, their cache groups, and how the KV memory is
// divided among the groups.
//
//   groups  Group 0 keeps all positions; it has the layers without a window, or those of the
//           largest window if every layer has one. Each other window is a group of its own. Layers
//           of a group may differ in heads and codecs, because each layer has a buffer of its own.
//           Layers that store nothing are in no group.
//   memory  Without windowed groups, group 0 has all of it. A windowed group gets pages for the
//           windows of load.sequences sequences and for the tokens of two steps, and a quarter more
//           for known beginnings; but never more pages than if all groups had the same number.
//           Group 0 has the rest. So no group ever has fewer pages than a common pool would have,
//           unless it has enough for all sequences at once. With load.sequences of 0 all groups
//           have the same number.
//
// Thread safety: plain values.
#include <cstdint>
#include <vector>

#include "engine/core/kv/cache_pools.hpp"
#include "engine/core/kv/policy.hpp"
#include "schemas/base/error.hpp"

namespace millrace::engine {

struct LayerGroup {
  std::uint32_t window = 0;
  std::vector<std::uint32_t> layers;
};

// Sequences that run at once, and the most tokens of one in a step, and of a step.
struct CacheLoad {
  std::uint32_t sequences = 0, row_tokens = 0, step_tokens = 0;
};

struct CacheShape {
  KvShape shape{};                       // the heads of each layer
  std::vector<KvCodecs> layers{};        // the codecs of each layer
  std::vector<std::uint32_t> windows{};  // of each layer, 0: none; empty: no layer has one

  std::vector<LayerGroup> groups() const;
  // Bytes of one page in one layer, in the layers of a group, and in all layers.
  std::uint64_t layer_page_bytes(std::size_t layer) const {
    return millrace::engine::layer_page_bytes(layers[layer], shape.layers[layer]);
  }
  // Where the layers begin in a page that has them in order, and the end of the last.
  std::vector<std::uint64_t> layer_places() const;
  std::uint64_t page_bytes(const LayerGroup& group) const;
  std::uint64_t page_bytes() const;
  Status check_room(std::uint64_t bytes) const;  // kv_exceeded if they hold no page
  // The pages of each group in so many bytes; none if check_room fails.
  std::vector<std::uint64_t> divide(std::uint64_t bytes, const CacheLoad& load) const;
};

}  // namespace millrace::engine
