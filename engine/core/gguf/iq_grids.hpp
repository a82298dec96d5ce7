#pragma once
// The grids of the types IQ2_* and IQ3_*, which are part of the format: an entry is a point that
// some neighbouring weights share but for their signs and scale. The points of the IQ2 types hold
// eight magnitudes of two bits each, those of the IQ3 types four of four bits, the first in the
// lowest bits. Source: iq2xxs_grid and the like in ggml's ggml-common.h (MIT), whose bytes are the
// magnitudes' values. Points ascend, so the source of this file lists the steps between them.
// Thread safety: constants.
#include <array>
#include <cstdint>

namespace millrace::engine {

extern const std::array<std::uint16_t, 256> iq2_xxs_grid;
extern const std::array<std::uint16_t, 512> iq2_xs_grid;
extern const std::array<std::uint16_t, 1024> iq2_s_grid;
extern const std::array<std::uint16_t, 256> iq3_xxs_grid;
extern const std::array<std::uint16_t, 512> iq3_s_grid;

}  // namespace millrace::engine
