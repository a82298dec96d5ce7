#pragma once
// The text of a layer's kernel, generated from its operations (layer_program.hpp): a body of calls
// to what kernels/layer/cpu.cl has for each. Thread safety: pure functions.
#include <cstdint>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

#include "engine/core/model/backend/panel_layout.hpp"
#include "engine/core/model/layer_program.hpp"

namespace millrace::engine {

// A buffer from a byte on. Layers with the same text may begin at different bytes.
struct LayerBuffer {
  const Buffer* buffer = nullptr;
  std::uint64_t offset = 0;  // bytes
  bool operator==(const LayerBuffer&) const = default;
};

// Whether operations of a type have a text. Those of latent attention have none, so their layers
// run in parts (layer_join.hpp).
template <class Op>
inline constexpr bool has_text = !std::is_same_v<Op, SplitOp> && !std::is_same_v<Op, HeadProductOp>;

struct LayerText {
  std::string body;
  std::vector<LayerBuffer> buffers;  // in the order in which the body numbers them
  std::uint32_t sync_words = 0;      // counters of its phases
  bool turns = false, scales_queries = false, norms_heads = false, adds = false;
  bool gates_outputs = false;
  const Recurrence* recurrence = nullptr;  // if the layer has one
  Experts* experts = nullptr;              // if the layer has them
  std::optional<PanelLayout> router;       // then the format of their router
};

// A format and a depth of matrices.
struct LayerProduct {
  PanelLayout layout;
  bool of_experts = false;  // experts have such matrices, too
};

// `products` has the program's products, which the text numbers by their place in it; those that
// are new are appended.
LayerText text_of(const LayerProgram& layer, std::vector<LayerProduct>& products);

// The matrices that a layer multiplies by, in order.
std::vector<const Projection*> products_of(const LayerProgram& layer);

}  // namespace millrace::engine
