// Multiplies panels by columns on CPUs, in runs of tiles (integer_tile.cl). A program has it once
// for each PRODUCT (layout.cl) that it needs. Numeric contract: integer_generic.cl.
//
// Columns are cut into equal tiles no wider than TILE, each rounded up to a width that was
// compiled. The results of the added columns are dropped, and x has TILE readable rows after its
// last. A last panel without a second is taken twice, and one result is dropped.
//
//   defines  those of integer_tile.cl
// Limit: that of integer_tile.cl.
#include "activation/gated.cl"
#include "common/prelude.cl"
#include "matmul/cut.cl"
#include "matmul/integer_block.cl"
#include "matmul/layout.cl"
#include "quantize/block.cl"

#ifndef MR_TILES_BEGUN
#define MR_TILES_BEGUN
// The number of tiles that are activated together.
#define STRIP (Q_TOGETHER / TILE)

// Computes the activation (activation/gated.cl) of `width` rows of 32 gates and 32 ups, in place,
// and writes the codes.
static inline void mr_activate(__global float* sums, uint width, __global int* out,
                               uint out_stride) {
  Tops tops;
  mr_no_tops(&tops);
  for (uint j = 0; j < width; j += 2) {
    __global float16* a = (__global float16*)(sums + j * 64);
    __global float16* b = (__global float16*)(sums + min(j + 1, width - 1) * 64);
    const float16 gate[4] = {a[0], a[1], b[0], b[1]}, up[4] = {a[2], a[3], b[2], b[3]};
    float16 v[4];
    mr_gate_mul4(gate, up, v);
    a[0] = v[0];
    a[1] = v[1];
    b[0] = v[2];
    b[1] = v[3];
    tops.top[j] = mr_top(v[0], v[1]);
    tops.top[j + 1] = mr_top(v[2], v[3]);
  }
  mr_scales(&tops, width);
  for (uint j = 0; j < width; ++j) {
    __global const float16* row = (__global const float16*)(sums + j * 64);
    mr_store_block(row[0], row[1], tops.scale[j], tops.inverse[j], out + (size_t)j * out_stride);
  }
}
#endif

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
  const uint tiles = MR_COLUMN_TILES(columns);
  Cut cut;
  // With few columns memory is the limit. Runs are long then: what is prefetched at an end is lost.
  const bool few = tiles <= 2;
  cut.run = min((uint)(CHUNK_PAIRS / pairs * (few ? 8 : 1)), MR_CEIL(units, share));
  cut.parts = few ? 1 : MR_CEIL(tiles, max(1u, CHUNK_TILES / (cut.run * pairs)));
  cut.chunks = MR_CEIL(units, cut.run) * cut.parts;
  return cut;
}
