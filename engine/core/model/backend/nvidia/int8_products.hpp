#pragma once
// Products of math int8 on NVIDIA GPUs by instructions of one warp, over signed bytes
// (kernels/matmul/int8_nvidia.cl). All ways to cut them have the same bits. Thread safety: the
// device's owner thread.
#include <cstdint>
#include <map>
#include <utility>

#include "engine/core/model/backend/backend.hpp"

namespace millrace::engine {

// How a product by instructions of one warp is cut.
struct Int8WarpShape {
  std::uint32_t warps = 1;              // of a group
  std::uint32_t panels = 1, tiles = 1;  // of a warp; a tile has 8 columns
  std::uint32_t stages = 2;
  auto operator<=>(const Int8WarpShape&) const = default;
};

class Int8Products {
 public:
  explicit Int8Products(const Target& target) : target_(&target) {}

  // Compiles the programs for a layout.
  Status prepare(const PanelLayout& layout);
  // The mode is that of the kernel (kernels/matmul/mode.h).
  Status launch(const ProductCall& call, const WeightRun& run, std::uint32_t mode);

 private:
  bool fits(const Int8WarpShape& shape) const;
  const Int8WarpShape& shape_for(std::uint32_t panels, std::uint32_t columns) const;

  const Target* target_;
  std::map<std::pair<std::uint32_t, Int8WarpShape>, Kernel> kernels_;  // by groups of K, and shape
};

}  // namespace millrace::engine
