#pragma once
// The family of NVIDIA GPUs since compute capability 8.0: integer products run on the matrix unit
// (kernels/matmul/integer_nvidia.cl), with the bits of all other families; the rest is generic. On
// other devices, where tests force it, plain arithmetic stands for the unit's instruction.
#include <cstdint>
#include <map>
#include <memory>
#include <tuple>
#include <utility>

#include "engine/core/model/backend/generic/generic_backend.hpp"

namespace millrace::engine {

// How a product of some size is cut (integer_nvidia.cl).
struct WarpShape {
  std::uint32_t panels = 1, tiles = 1;  // of a warp
  bool pipelined = false, narrow = false;
  auto operator<=>(const WarpShape&) const = default;
};

class NvidiaBackend final : public GenericBackend {
 public:
  explicit NvidiaBackend(Target of) : GenericBackend(std::move(of)) {}

 protected:
  Status prepare_codes(const PanelLayout& layout) override;
  Status project_codes(const ProductCall& call, const WeightRun& run) override;

 private:
  // Format, padded K, and the shape.
  using UnitKey = std::tuple<PanelFormat, std::uint32_t, WarpShape>;
  WarpShape shape_for(std::uint32_t panels, std::uint32_t columns) const;
  Status prepare(const PanelLayout& layout, const WarpShape& shape);

  std::map<UnitKey, Kernel> unit_products_;
};

}  // namespace millrace::engine
