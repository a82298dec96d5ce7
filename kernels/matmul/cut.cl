#pragma once
// How the cpu family cuts a product: columns into tiles of up to TILE, and units of panels by
// columns into chunks, which groups claim.
#ifndef TILE
#define TILE 6
#endif
#define MR_CEIL(a, b) (((a) + (b) - 1) / (b))
#define MR_COLUMN_TILES(columns) MR_CEIL(columns, TILE)
#define CHUNKS_A_GROUP 4

// The cut of units by columns: units in runs of `run`, columns in `parts`. A unit is one or more
// pairs of panels.
typedef struct {
  uint run, parts, chunks;
} Cut;

// Returns where part t of `parts` begins.
static inline uint mr_cut(uint whole, uint t, uint parts) {
  return t == parts ? whole : (uint)((ulong)whole * t / parts);
}
