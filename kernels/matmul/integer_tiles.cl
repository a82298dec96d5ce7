// Multiplies panels by columns on CPUs, in runs of tiles (integer_tile.cl). A program has it once
// for each PRODUCT (layout.cl) that it needs. Numeric contract: integer_generic.cl. Processors with
// a matrix unit use it from 12 columns on (matrix_tiles.cl); what follows is about fewer, and about
// other processors.
//
// Columns are cut into equal tiles no wider than TILE, each rounded up to a width that was
// compiled. The results of the added columns are dropped, and x has TILE readable rows after its
// last. A last panel without a second is taken twice, and one result is dropped.
//
//   defines  those of integer_tile.cl
// Limit: that of integer_tile.cl.
#include "common/prelude.cl"
#include "matmul/activate.cl"
#include "matmul/cut.cl"
#include "matmul/integer_block.cl"
#include "matmul/layout.cl"
#include "quantize/block.cl"

#define STRIP (Q_TOGETHER / TILE)  // tiles that are activated together

#undef COLUMNS
#define COLUMNS 1
#include "matmul/integer_tile.cl"
#undef COLUMNS
#define COLUMNS 2
#include "matmul/integer_tile.cl"
#undef COLUMNS
#define COLUMNS 4
#include "matmul/integer_tile.cl"
#if TILE >= 6
#if PANELS == 2
#undef COLUMNS
#define COLUMNS 5
#include "matmul/integer_tile.cl"
#endif
#undef COLUMNS
#define COLUMNS 6
#include "matmul/integer_tile.cl"
#endif

#if DOT == 4
#include "matmul/matrix_tiles.cl"
#endif

// Computes one or two panels by up to TILE columns; `next` will be read after them.
static inline void MR_N(mr_panels)(__global const uchar* weight, __global const uchar* next,
                                   __global const int* x, __global float* out,
                                   __global const float* bias, uint out_stride, uint panels,
                                   uint width, uint mode) {
  for (uint p = 0; p < panels; p += PANELS) {
    const uint count = min(panels - p, (uint)PANELS);
    const Tile tile = {weight, count == 2 ? weight + PANEL_BYTES : weight,
                       next,   x,     out, bias, out_stride, count, width, mode};
    switch (width) {
      case 1: MR_JOINED(MR_N(mr_tile), 1)(&tile); break;
      case 2: MR_JOINED(MR_N(mr_tile), 2)(&tile); break;
#if TILE < 6
      default: MR_JOINED(MR_N(mr_tile), 4)(&tile); break;
#else
      case 3:
      case 4: MR_JOINED(MR_N(mr_tile), 4)(&tile); break;
#if PANELS == 2
      case 5: MR_JOINED(MR_N(mr_tile), 5)(&tile); break;
#endif
      default: MR_JOINED(MR_N(mr_tile), 6)(&tile); break;
#endif
    }
    weight += PANELS * PANEL_BYTES;
    next += PANELS * PANEL_BYTES;
    out += PANELS * 16;
    bias += PANELS * 16;
  }
}

// The pairs of panels that one walk over all columns takes: as many as stay in the second-level
// cache meanwhile; an even number.
#define CHUNK_BYTES (128 * 1024)
#define CHUNK_PAIRS (PANEL_BYTES * 8 > CHUNK_BYTES ? 2 : CHUNK_BYTES / PANEL_BYTES / 4 * 2)

// The panels to prefetch during tile t: those that come next, when a walk meets them for the first
// time. Later they are in the second-level cache, where a prefetch pays for few columns only.
#ifndef MR_NEXT
#define MR_NEXT(at) (t == 0 || tiles <= 4 ? (at) + 2 * stride * PANEL_BYTES : (at))
#endif

// Multiplies pairs of panels first to last - 1 by all columns. The panels that this core will read
// next lie `stride` pairs further on. With a constant number of column tiles and a bound on columns
// the compiler leaves out the widths that cannot occur.
static inline void MR_N(mr_pairs)(__global const uchar* weight, __global const int* x,
                                  __global float* out, __global const float* bias, uint panels,
                                  uint first, uint last, uint stride, uint columns, uint tiles,
                                  uint out_stride, uint mode) {
#if DOT == 4 && K <= 4 * MATRIX_GATED_K
  if (MR_MATRIX(columns)) {
    MR_N(mr_matrix_pairs)(weight, x, out, bias, panels, first, last, stride, columns, out_stride,
                          mode);
    return;
  }
#endif
  for (uint chunk = first; chunk < last; chunk += CHUNK_PAIRS) {
    const uint end = min(last, (uint)(chunk + CHUNK_PAIRS));
    for (uint t = 0; t < tiles; ++t) {
      const uint c = mr_cut(columns, t, tiles), width = mr_cut(columns, t + 1, tiles) - c;
      for (uint pair = chunk; pair < end; ++pair) {
        const uint p = 2 * pair;
        __global const uchar* at = weight + (size_t)p * PANEL_BYTES;
        MR_N(mr_panels)(at, MR_NEXT(at), x + (size_t)c * X_STRIDE,
                        out + (size_t)c * out_stride + p * 16, bias + p * 16, out_stride,
                        min(panels - p, 2u), width, mode);
      }
    }
  }
}

// Does the same for gate and up, 32 channels of both at a time, and writes the codes of their
// activation for blocks first to last - 1; `sums` has STRIP_FLOATS floats for the group alone.
static inline void MR_N(mr_gate_up)(__global const uchar* weight, __global const int* x,
                                    __global int* out, __global const float* bias,
                                    __global float* sums, uint panels, uint first, uint last,
                                    uint stride, uint columns, uint tiles, uint out_stride,
                                    uint mode) {
#if DOT == 4 && K <= MATRIX_GATED_K
  if (MR_MATRIX(columns)) {
    MR_N(mr_matrix_gate_up)(weight, x, out, bias, sums, panels, first, last, stride, columns,
                            out_stride, mode);
    return;
  }
#endif
  const uint blocks = panels / 4;
  for (uint chunk = first; chunk < last; chunk += CHUNK_PAIRS / 2) {
    const uint end = min(last, (uint)(chunk + CHUNK_PAIRS / 2));
    for (uint strip = 0; strip < tiles; strip += STRIP) {
      const uint strip_end = min(tiles, strip + STRIP), begin = mr_cut(columns, strip, tiles);
      for (uint b = chunk; b < end; ++b) {
        for (uint t = strip; t < strip_end; ++t) {
          const uint c = mr_cut(columns, t, tiles), width = mr_cut(columns, t + 1, tiles) - c;
          for (uint i = 0; i < 2; ++i) {  // gate, then up
            const uint p = 2 * b + i * 2 * blocks;
            __global const uchar* at = weight + (size_t)p * PANEL_BYTES;
            MR_N(mr_panels)(at, MR_NEXT(at), x + (size_t)c * X_STRIDE,
                            sums + (c - begin) * 64 + i * 32, bias + p * 16, 64, 2, width, mode);
          }
        }
        mr_activate(sums, mr_cut(columns, strip_end, tiles) - begin,
                    out + (size_t)begin * out_stride + b * Q_WORDS, out_stride);
      }
    }
  }
}

// The size of chunks: some microseconds of tiles, because at the end one core waits for the other's
// last chunk. Each group gets several (CHUNKS_A_GROUP), because a group may be late.
#define CHUNK_TILES MR_CEIL(800, K_BLOCKS)

// Cuts units into at least `share` chunks, if there are as many units.
static inline Cut MR_N(mr_cut_work)(uint units, uint pairs, uint columns, uint share) {
  const bool matrix = MR_MATRIX(columns);
  const uint tiles = MR_CEIL(columns, matrix ? MATRIX_TILE : TILE);
  Cut cut;
  cut.step = matrix ? MATRIX_TILE : 1;
  // With few columns memory is the limit. Runs are long then: what is prefetched at an end is lost.
  const bool few = columns <= 2 * TILE;
  cut.run = min((uint)(CHUNK_PAIRS / pairs * (few ? 8 : 1)), MR_CEIL(units, share));
  cut.parts = few ? 1 : MR_CEIL(tiles, max(1u, CHUNK_TILES / (cut.run * pairs)));
  cut.chunks = MR_CEIL(units, cut.run) * cut.parts;
  return cut;
}
