#pragma once
// How the products of experts are cut on NVIDIA GPUs (kernels/matmul/tiles.cl): by instructions of
// one warp, or of four where the device has them. Pure arithmetic. Thread safety: pure functions.
#include <cstdint>
#include <span>

#include "engine/core/model/backend/nvidia/nvidia_backend.hpp"

namespace millrace::engine {

struct ExpertShape {
  bool wide = false;  // by instructions of four warps
  WarpShape warp{};
  WideShape four{};

  std::uint32_t columns() const;  // of a tile
  std::uint32_t panels() const;   // of a tile
};

// All shapes, the ones of few columns first. KernelVariant::expert_shape counts them from 1.
std::span<const ExpertShape> expert_shapes();

// The shape for so many choices of so many experts that is likely done first: tiles that are not
// full compute columns for nothing, and with many tiles weights are read and expanded as often.
const ExpertShape& expert_shape_for(std::uint64_t choices, std::uint32_t experts, bool has_wide);

}  // namespace millrace::engine
