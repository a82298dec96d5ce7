#pragma once
// Choices within a family's kernels that change no bit; tests make others than the defaults. Thread
// safety: plain values.
#include <cstdint>

#include "kernels/tuned.hpp"

namespace millrace::engine {

// All but the last two are of the cpu family.
struct KernelVariant {
  std::uint32_t sums = 0;         // vectors of 16 sums kept in registers; 0: the tuned number
  bool half_by_integers = false;  // converts halves without the processor's instruction
  // What a core may wait for others in a launch of whole layers before it leaves the rest to them,
  // in turns of 20 to 40 ns; in wide steps it may wait longer, but not if this is 0.
  std::uint32_t layer_patience = kernels::layer_patience;
  // Multiplications a core that a launch of several whole layers has at least.
  std::uint64_t layer_launch_products = kernels::layer_launch_products;
  // The shape of products by instructions of four warps (nvidia/wide_products.cpp), counted from 1;
  // 0: by the sizes.
  std::uint32_t wide_shape = 0;
  // The same of products of experts (nvidia/expert_shapes.cpp).
  std::uint32_t expert_shape = 0;
};

}  // namespace millrace::engine
