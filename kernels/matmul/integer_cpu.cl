// out[c][r] = sum over k of weight[r][k] * x[c][k], x quantized, for CPUs. Arguments and numeric
// contract: integer_generic.cl; the work itself: integer_tiles.cl.
//
//   launch   local (1), groups: one a core. The work is cut into chunks, runs of panels by parts of
//            the columns, which groups claim by a counter: a core that wakes late or is taken away
//            costs what it would have done, not what had been laid out for it
//   work     uint [2], zero before and after each launch: next chunk, groups that are through
//   scratch  STRIP_FLOATS floats a group
// Which group computes a chunk depends on time; what a chunk computes does not.
// Limit: that of integer_tiles.cl; a launch costs 13 us beside it.

#define MR_KERNEL __kernel __attribute__((reqd_work_group_size(1, 1, 1))) void
#define MR_COLUMN_TILES(columns) (((columns) + TILE - 1) / TILE)
#define MR_CEIL(a, b) (((a) + (b) - 1) / (b))

// A chunk's tiles: some microseconds of them, because at the end one core waits for the other's
// last chunk; and a number of chunks for every group, because it may be late.
#define CHUNK_TILES MR_CEIL(800, K_BLOCKS)
#define CHUNKS_A_GROUP 4

// Units, of a pair of panels or more, by columns: in runs of `run` and in `parts`.
typedef struct {
  uint run, parts, chunks;
} Cut;

static inline Cut mr_cut_work(uint units, uint pairs, uint columns) {
  const uint tiles = MR_COLUMN_TILES(columns);
  Cut cut;
  const uint share = (uint)get_num_groups(0) * CHUNKS_A_GROUP;
  // Few columns run against memory: a long run, because what is prefetched at its end is lost.
  const bool few = tiles <= 2;
  cut.run = min((uint)(CHUNK_PAIRS / pairs * (few ? 8 : 1)), MR_CEIL(units, share));
  cut.parts = few ? 1 : MR_CEIL(tiles, max(1u, CHUNK_TILES / (cut.run * pairs)));
  cut.chunks = MR_CEIL(units, cut.run) * cut.parts;
  return cut;
}

// Carries out `chunk`, for units first .. last - 1 and columns c .. c + width - 1, as long as there
// are any; a unit is so many pairs. The last group leaves the counters as they were.
#define MR_CLAIM(units, pairs, chunk)                                                  \
  {                                                                                    \
    const Cut cut = mr_cut_work(units, pairs, columns);                                \
    for (uint i; (i = atomic_inc(work)) < cut.chunks;) {                               \
      const uint first = i / cut.parts * cut.run, last = min(first + cut.run, units);  \
      const uint part = i % cut.parts, c = mr_cut(columns, part, cut.parts);           \
      const uint width = mr_cut(columns, part + 1, cut.parts) - c;                     \
      chunk;                                                                           \
    }                                                                                  \
    if (atomic_inc(work + 1) == (uint)get_num_groups(0) - 1) {                         \
      atomic_xchg(work, 0);                                                            \
      atomic_xchg(work + 1, 0);                                                        \
    }                                                                                  \
  }

MR_KERNEL matmul(__global const uchar* weight, __global const int* x, __global float* out,
                 __global const float* bias, uint panels, uint columns, uint out_stride,
                 uint out_row, uint mode, volatile __global uint* work) {
  const uint pairs = (panels + 1) / 2;
  out += out_row;
  bias += out_row;
  MR_CLAIM(pairs, 1,
           MR_N(mr_pairs)(weight, x + (size_t)c * X_STRIDE, out + (size_t)c * out_stride, bias,
                          panels, first, last, 1, width, MR_COLUMN_TILES(width), out_stride, mode))
}

// Gate and up, panels/2 each, to quantized rows of SiLU(gate) * up.
MR_KERNEL gate_up(__global const uchar* weight, __global const int* x, __global float* scratch,
                  __global int* out, __global const float* bias, uint panels, uint columns,
                  uint out_stride, uint mode, volatile __global uint* work) {
  __global float* sums = scratch + get_group_id(0) * STRIP_FLOATS;
  const uint blocks = panels / 4;
  MR_CLAIM(blocks, 2,
           MR_N(mr_gate_up)(weight, x + (size_t)c * X_STRIDE, out + (size_t)c * out_stride, bias,
                            sums, panels, first, last, 1, width, MR_COLUMN_TILES(width),
                            out_stride, mode))
}
