#pragma once
// How the cpu family cuts a product: columns into tiles of up to TILE, or MATRIX_TILE on the matrix
// unit, and units of panels by columns into chunks, which groups claim.
#include "matmul/target.cl"

#ifndef TILE
#define TILE 6
#endif
#define MR_CEIL(a, b) (((a) + (b) - 1) / (b))
#define MR_COLUMN_TILES(columns) MR_CEIL(columns, TILE)
#define CHUNKS_A_GROUP 4

// Whether the matrix unit (matrix_tiles.cl) multiplies a chunk of so many columns of codes, and the
// columns of its tiles. Fewer columns are faster as dot products.
#define MATRIX_TILE 16u
#if DOT == 4
#define MR_MATRIX(columns) ((columns) >= 12)
#else
#define MR_MATRIX(columns) false
#endif

// The cut of units by columns: units in runs of `run`, columns in `parts` of whole steps of `step`
// columns. A unit is one or more pairs of panels.
typedef struct {
  uint run, parts, step, chunks;
} Cut;

// Returns where part t of `parts` begins.
static inline uint mr_cut(uint whole, uint t, uint parts) {
  return t == parts ? whole : (uint)((ulong)whole * t / parts);
}

// Returns the column where a part begins.
static inline uint mr_part_begin(const Cut* cut, uint columns, uint part) {
  return min(mr_cut(MR_CEIL(columns, cut->step), part, cut->parts) * cut->step, columns);
}
