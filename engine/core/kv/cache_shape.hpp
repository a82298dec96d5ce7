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
//   states  Of a model with recurrent layers a sequence has a state of constant size, too. First
//           come the states of load.sequences sequences (8 if that is 0), as far as they fit in
//           half of the memory, but at least one; then, in up to a quarter of what is left, twice
//           as many states for known beginnings. Pages get the rest. A model without keys and
//           values has pages of no bytes, as many as no sequence needs.
//
// Thread safety: plain values.
#include <cstdint>
#include <vector>

#include "engine/core/kv/cache_pools.hpp"
#include "engine/core/kv/policy.hpp"
#include "schemas/base/error.hpp"

namespace millrace::engine {

// Consecutive layers of a model, which one device has.
struct LayerRange {
  std::uint32_t first = 0, end = 0xffffffffu;
  std::uint32_t count() const { return end - first; }
  bool has(std::uint64_t layer) const { return layer >= first && layer < end; }
  bool operator==(const LayerRange&) const = default;
};

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
  std::vector<std::uint64_t> states{};   // bytes in each layer; empty: no layer has one

  std::vector<LayerGroup> groups() const;
  // Bytes of one page in one layer, in the layers of a group, and in all layers.
  std::uint64_t layer_page_bytes(std::size_t layer) const {
    return millrace::engine::layer_page_bytes(layers[layer], shape.layers[layer]);
  }
  // Where the layers begin in a page that has them in order, and the end of the last.
  std::vector<std::uint64_t> layer_places() const;
  std::uint64_t page_bytes(const LayerGroup& group) const;
  std::uint64_t page_bytes() const;
  std::uint64_t state_bytes() const;  // of one sequence in all layers
  // The part of so many bytes of all layers that these layers take.
  std::uint64_t share_of(const LayerRange& range, std::uint64_t bytes) const;
  // The reverse: the bytes of all layers of which these take so many.
  std::uint64_t whole_of(const LayerRange& range, std::uint64_t share) const;
  Status check_room(std::uint64_t bytes) const;  // kv_exceeded if they hold no page and no state
  // The states in so many bytes, and the pages of each group in the rest; none if check_room fails.
  std::uint64_t state_count(std::uint64_t bytes, const CacheLoad& load) const;
  std::vector<std::uint64_t> divide(std::uint64_t bytes, const CacheLoad& load) const;
};

}  // namespace millrace::engine
