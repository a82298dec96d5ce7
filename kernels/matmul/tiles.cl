#pragma once
// The tiles of a product on the matrix unit as its kernel goes through them. Without RAGGED they
// are those of one matrix, TILE_PANELS panels by TILE_COLUMNS columns, and tiles that share weights
// are neighbours.
//
// With RAGGED 1 they are those of all experts' matrices (experts/tiles.h, experts/group.cl), which
// stand one after the other, `panels` panels each, from first_expert on: TILE_PANELS panels by the
// slots of a tile of the list, at most TILE_COLUMNS. Tiles that share rows of x are neighbours.
// `bias` has bias_stride numbers of each expert, also of those before first_expert.
//
//   MR_PRODUCT             the kernel's name
//   MR_RAGGED_PARAMETERS   the last of the kernel's parameters
//   MR_TILES(panels, columns, tile_panels, tile_columns)  a Tiles of the kernel's parameters
//
// Defines: RAGGED; with it EXPERTS.
#include "common/prelude.cl"
#include "experts/tiles.h"

#ifndef RAGGED
#define RAGGED 0
#endif
#ifndef EXPERTS
#define EXPERTS 8
#endif

// A tile's panels begin with number `panel` of those of `weight`'s expert; its columns are `column`
// to `end` - 1.
typedef struct {
  uint expert, panel, column, end;
} Tile;

#if RAGGED
typedef struct {
  uint panels, tile_panels, rows, count;  // `rows` tiles of panels, and `count` in all
  __global const uint4* list;
  uint first_expert;
} Tiles;

#define MR_PRODUCT experts_matmul
#define MR_RAGGED_PARAMETERS \
  , __global const uint* tile_list, uint first_expert, uint experts, uint bias_stride
#define MR_TILES(panels, columns, tile_panels, tile_columns) \
  mr_tiles(panels, tile_panels, tile_list, first_expert, experts)

// Those of the experts from first_expert on.
MR_GROUP_INLINE Tiles mr_tiles(uint panels, uint tile_panels, __global const uint* list,
                               uint first_expert, uint experts) {
  const uint begin = list[first_expert], rows = (panels + tile_panels - 1) / tile_panels;
  const Tiles out = {panels, tile_panels, rows, (list[first_expert + experts] - begin) * rows,
                     (__global const uint4*)(list + TILES_AT(EXPERTS)) + begin, first_expert};
  return out;
}

// Tiles beyond the last are the last; there must be one.
MR_GROUP_INLINE Tile mr_tile(const Tiles* tiles, uint number) {
  number = min(number, tiles->count - 1);
  const uint4 at = tiles->list[number / tiles->rows];
  const Tile out = {at.x, number % tiles->rows * tiles->tile_panels, at.y, at.z};
  return out;
}

// The number of a panel among all of them.
#define MR_PANEL_NUMBER(tiles, tile, panel) \
  (((tile).expert - (tiles).first_expert) * (tiles).panels + (panel))
#define MR_TILE_BIAS(bias, tile) ((bias) + (size_t)(tile).expert * bias_stride)
#else
typedef struct {
  uint panels, columns, tile_panels, tile_columns, column_tiles, count;
} Tiles;

#define MR_PRODUCT matmul
#define MR_RAGGED_PARAMETERS
#define MR_TILES(panels, columns, tile_panels, tile_columns) \
  mr_tiles(panels, columns, tile_panels, tile_columns)

MR_GROUP_INLINE Tiles mr_tiles(uint panels, uint columns, uint tile_panels, uint tile_columns) {
  const uint column_tiles = (columns + tile_columns - 1) / tile_columns;
  const Tiles out = {panels, columns, tile_panels, tile_columns, column_tiles,
                     (panels + tile_panels - 1) / tile_panels * column_tiles};
  return out;
}

MR_GROUP_INLINE Tile mr_tile(const Tiles* tiles, uint number) {
  const Tile out = {0, number / tiles->column_tiles * tiles->tile_panels,
                    number % tiles->column_tiles * tiles->tile_columns, tiles->columns};
  return out;
}

#define MR_PANEL_NUMBER(tiles, tile, panel) (panel)
#define MR_TILE_BIAS(bias, tile) (bias)
#endif
