#pragma once
// Packs weight matrices for products of math int8 (kernels/matmul/int8_panel.h). Thread safety:
// pure functions.
#include <cstddef>
#include <cstdint>
#include <span>

#include "engine/core/model/backend/pack.hpp"

namespace millrace::engine {

// Rotates groups of 128 numbers: each is multiplied by the Hadamard matrix of entries +1 and -1, by
// additions and subtractions at distances 1, 2, 4, ... 64, in this order. Rows of weights and of
// activations that are both rotated have 128 times the product; what is large in one column of a
// group is spread over all of them, so that one scale serves a whole row.
void rotate_groups(std::span<float> values);

// Makes codes of a rotated row, and returns its scale: the largest magnitude divided by 127 and,
// exactly, by 128. Each code is the nearest integer of value * (127 / largest), even if two are as
// near. A row whose values are all below 2^-100 is zero.
float int8_row(std::span<const float> rotated, std::int8_t* codes);

// Packs rows of a tensor of any type into a panel that is zero, from its row `first_lane` on.
void pack_int8_rows(const PanelRows& from, std::uint32_t columns, std::uint32_t first_lane,
                    std::span<std::byte> out);

}  // namespace millrace::engine
