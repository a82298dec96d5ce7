#pragma once
// The rotary table: what the kernels turn queries and keys by. Computed in double with nothing but
// operations that IEEE 754 defines to the last bit, so that it is the same on every machine and
// with every C library (ARCHITECTURE.md, "Determinism"). Thread safety: pure functions.
#include <cstdint>
#include <vector>

#include "engine/core/model/spec.hpp"

namespace millrace::engine {

// cos and sin of each position and frequency, [positions][rope_dim / 2][2].
std::vector<float> rope_table(const ModelSpec& spec, std::uint32_t positions);

}  // namespace millrace::engine
