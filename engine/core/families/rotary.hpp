#pragma once
// The rotary table, by which kernels rotate queries and keys. It is computed in double and has the
// same bits on every machine (portable_math.hpp, and ARCHITECTURE.md, "Determinism").
// Thread safety: pure functions.
#include <cstdint>
#include <vector>

#include "engine/core/families/spec.hpp"

namespace millrace::engine {

// Returns cos and sin, times the amplitude, of each position and frequency: [positions][dim /
// 2][2].
std::vector<float> rope_table(const RopeSpec& rope, std::uint32_t positions);

}  // namespace millrace::engine
