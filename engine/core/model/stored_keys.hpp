#pragma once
// The keys that a model has stored, on the host: for means and tests of keys. Every layer of the
// model that stores keys must store halves. Errors: those of reading pages. Thread safety: the
// device's owner thread.
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "engine/core/device/device.hpp"
#include "engine/core/families/spec.hpp"
#include "engine/core/kv/cache_shape.hpp"
#include "engine/core/model/model.hpp"
#include "schemas/base/error.hpp"

namespace millrace::engine {

class StoredKeys {
 public:
  // The model, which has this spec, must outlive the keys.
  StoredKeys(Model& model, const ModelSpec& spec);

  // Copies pages, whose ids are those of each cache group, in place of those before; waits until
  // they have arrived.
  Status read(Device& device, std::span<const PageId> pages);
  // Returns a key as attention uses it, float [head_dim]; valid until the next call. `token` counts
  // from the start of the first page.
  std::span<const float> key(std::uint32_t layer, std::uint32_t head, std::uint32_t token);

 private:
  Model* model_;
  CacheShape cache_;
  std::vector<std::uint64_t> places_;  // CacheShape::layer_places
  std::vector<std::byte> bytes_;       // of the pages in order, each as its layers in order
  std::vector<float> key_;
};

}  // namespace millrace::engine
