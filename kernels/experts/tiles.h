#pragma once
// The list of the tiles of a step's experts (matmul/tiles.cl), as host and device share it, in
// words. C++ and OpenCL C both read this file.
//
//   numbers   the first tile of each expert, and the number of all tiles
//   tiles     four words each, those of an expert side by side: its number, the tile's first slot,
//             the slot behind its last, and one of padding
//
// A tile has slots of one expert alone. The first slot of each expert is a multiple of
// TILE_GRANULE, so that the copy unit moves its rows as they stand; slots in between are empty.

#define TILE_GRANULE 8
#define TILES_AT(experts) (((experts) + 1 + 3) / 4 * 4)
// With so many choices of so many experts, in tiles of so many columns.
#define MOST_TILES(choices, experts, columns) ((choices) / (columns) + (experts))
#define MOST_SLOTS(choices, experts) ((choices) + (experts) * (TILE_GRANULE - 1))
