#pragma once
// The tiles of a product by instructions of four warps (half_wgmma.cl, rows_wgmma.cl): TILE_PANELS
// panels by TILE_COLUMNS columns, numbered so that tiles that share weights are neighbours.
#include "common/prelude.cl"

typedef struct {
  uint panels, columns, column_tiles, count;
} Tiles;

MR_GROUP_INLINE Tiles mr_tiles(uint panels, uint columns, uint tile_panels, uint tile_columns) {
  const uint column_tiles = (columns + tile_columns - 1) / tile_columns;
  const Tiles out = {panels, columns, column_tiles,
                     (panels + tile_panels - 1) / tile_panels * column_tiles};
  return out;
}
