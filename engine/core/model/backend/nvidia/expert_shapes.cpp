#include "engine/core/model/backend/nvidia/expert_shapes.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>

namespace millrace::engine {
namespace {

constexpr std::uint32_t instruction_columns = 8, panels_of_four_warps = 4;

constexpr ExpertShape one_warp(const WarpShape& shape) {
  return {.warp = shape};
}
constexpr ExpertShape four_warps(std::uint32_t sets, std::uint32_t columns, std::uint32_t groups) {
  return {.wide = true, .four = {.warpgroups = sets, .columns = columns, .groups = groups}};
}

// Measured on an H200 (kernels/experts/README.md).
constexpr std::array<ExpertShape, 12> shapes_of_experts{
    one_warp({.warps = 2, .panels = 1, .tiles = 1, .stage_blocks = 8, .stages = 3}),
    one_warp({.warps = 4, .panels = 1, .tiles = 2, .stage_blocks = 4, .stages = 4}),
    four_warps(1, 24, 4),
    four_warps(1, 32, 4),
    one_warp({.warps = 4, .panels = 1, .tiles = 4, .stage_blocks = 4, .stages = 3}),
    four_warps(1, 48, 3),
    four_warps(1, 64, 3),
    one_warp({.warps = 4, .panels = 2, .tiles = 8, .stages = 3}),
    four_warps(2, 96, 1),
    four_warps(2, 128, 1),
    four_warps(2, 160, 1),
    four_warps(2, 192, 1),
};

}  // namespace

std::uint32_t ExpertShape::columns() const {
  return wide ? four.columns : warp.tiles * instruction_columns;
}

std::uint32_t ExpertShape::panels() const {
  return wide ? four.warpgroups * panels_of_four_warps : warp.warps * warp.panels;
}

std::span<const ExpertShape> expert_shapes() {
  return shapes_of_experts;
}

namespace {

// The tiles of an expert, on average, in tiles of so many columns. The slots of experts spread
// around their mean as chance does, and by a quarter of it as routers do.
double tiles_of(double mean, double columns) {
  const double spread = std::sqrt(mean + mean * mean / 16);
  double tiles = 1;
  for (double slots = columns; slots < mean + 4 * spread; slots += columns) {
    tiles += std::erfc((slots - mean) / spread / std::numbers::sqrt2) / 2;
  }
  return tiles;
}

}  // namespace

const ExpertShape& expert_shape_for(std::uint64_t choices, std::uint32_t experts, bool has_wide) {
  constexpr std::uint32_t least_wide = 24;  // columns; for fewer one warp's instructions are faster
  // What a tile costs besides its columns, in columns: the making of operands, and waits.
  constexpr double fixed = 40;
  const double mean = static_cast<double>(choices) /
                      static_cast<double>(std::clamp<std::uint64_t>(choices, 1, experts));
  const double want = 1.5 * mean;
  if (want <= shapes_of_experts[0].columns()) return shapes_of_experts[0];
  if (want <= shapes_of_experts[1].columns()) return shapes_of_experts[1];
  const ExpertShape* best = nullptr;
  double least = 0;
  for (const ExpertShape& shape : shapes_of_experts) {
    if (shape.wide != has_wide || (has_wide && shape.columns() < least_wide)) continue;
    const double cost = tiles_of(mean, shape.columns()) * (shape.columns() + fixed);
    if (best == nullptr || cost < least) {
      best = &shape;
      least = cost;
    }
  }
  return *best;
}

}  // namespace millrace::engine
