#pragma once
// The rotary table, by which kernels rotate queries and keys. It is computed in double and uses
// only operations that IEEE 754 defines to the last bit, so that it is the same on every machine
// and with every C library (ARCHITECTURE.md, "Determinism"). Thread safety: pure functions.
#include <cstdint>
#include <vector>

#include "engine/core/families/spec.hpp"

namespace millrace::engine {

// Returns cos and sin of each position and frequency, [positions][dim / 2][2].
std::vector<float> rope_table(const RopeSpec& rope, std::uint32_t positions);

}  // namespace millrace::engine
