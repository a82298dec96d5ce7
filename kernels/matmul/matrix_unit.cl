#pragma once
// The instructions of AMX, the matrix unit of some x86 processors, on tiles of up to 16 rows of 64
// bytes. They stand as text, because PoCL 3.1 compiles for processors without them. The system must
// have allowed them to this process (engine/core/device/dot.cpp). Tiles 0, 1 and 2 are C, A and B
// of C = A x B.
#include "matmul/target.cl"

// The shapes of the tiles, as the processor reads them.
typedef struct {
  uchar palette, first_row;
  uchar reserved[14];
  ushort row_bytes[16];
  uchar rows[16];
} __attribute__((aligned(64))) TileShapes;

// Begins the use of tiles, in which A has 16 columns of `codes` codes. This takes as long as
// several blocks, so a group does it once for many tiles.
static MR_TARGET void mr_begin_tiles(uint codes) {
  const TileShapes shapes = {
      .palette = 1, .row_bytes = {64, codes, 64}, .rows = {16, 16, codes / 4}};  // others: 0
  __asm__ volatile("ldtilecfg %0" : : "m"(shapes));
}

// Ends it, so that the system has no tiles to keep when it gives the core to another thread.
static MR_TARGET void mr_end_tiles(void) {
  __asm__ volatile("tilerelease");
}

// Multiplies 16 columns, `stride` bytes apart from x on, by codes of 16 rows, a vector for each
// four columns of the matrix. Column i's products are the vector sums[i], one row a lane.
static inline MR_TARGET_INLINE void mr_multiply_tiles(__global const int* x, ulong stride,
                                                      const int16* codes, int16* sums) {
  __asm__ volatile(
      "tilezero %%tmm0\n\t"
      "tileloadd (%0,%1), %%tmm1\n\t"
      "tileloadd (%2,%3), %%tmm2\n\t"
      "tdpbssd %%tmm2, %%tmm1, %%tmm0\n\t"
      "tilestored %%tmm0, (%4,%3)"
      :
      : "r"(x), "r"(stride), "r"(codes), "r"(64ul), "r"(sums)
      : "memory");
}
