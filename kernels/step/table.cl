#pragma once
// Reads the step table, `step`. `positions` and `tables` tell where a cache group's lists begin in
// it: for each token its position, and where the page table of its sequence begins in `step`. The
// tables follow the positions directly.
#include "kv/layout.cl"
#include "step/records.h"

static inline __global const uint* mr_page_table(__global const uint* step, uint tables,
                                                 uint token) {
  return step + step[tables + token];
}

// The page of the token's own position.
static inline uint mr_own_page(__global const uint* step, uint positions, uint tables,
                               uint token) {
  return mr_page_table(step, tables, token)[step[positions + token] / PAGE_TOKENS];
}

static inline __global const TileRecord* mr_tile_record(__global const uint* step, uint tiles,
                                                        uint index) {
  return (__global const TileRecord*)(step + tiles) + index;
}

static inline __global const UnitRecord* mr_unit_record(__global const uint* step, uint units,
                                                        uint index) {
  return (__global const UnitRecord*)(step + units) + index;
}

static inline __global const MatrixUnit* mr_matrix_unit(__global const uint* step, uint units,
                                                        uint index) {
  return (__global const MatrixUnit*)(step + units) + index;
}
