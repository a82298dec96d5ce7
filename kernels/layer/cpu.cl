// Runs consecutive layers of a step in one launch. What a layer does is generated from its list of
// operations (backend/cpu/layer_text.cpp): the function mr_layer, which follows this file. It has
// one phase for each operation, seven for experts, two or four for a recurrence, and one for
// several operations that go along rows. The phases call the functions of the separate kernels
// (quantize/norm.cl, matmul/integer_tiles.cl, rope/tile.cl, attention/tiles.cl), so the bits are
// the same. For a llama it reads:
//
//   MR_ROWS(0, MR_NORM(MR_VECTOR(0));)                               hidden -> normed
//   MR_PRODUCTS(2, MR_CHUNKS(30),                                    normed -> qkv
//     MR_PRODUCT(0, 60, MR_WEIGHT(1), 0, s->normed, 240, s->qkv + 0, 960, 0))
//   MR_STORE(4, MR_WEIGHT(2), MR_VECTOR(3), ...)                     keys and values -> the cache
//   MR_ATTEND(6, 0, s->attended, MR_WEIGHT(2), MR_VECTOR(3), ...)    qkv, cache -> attended
//   MR_PRODUCTS(9, ...)                                              added to hidden
//   MR_ROWS(11, MR_NORM(MR_VECTOR(7));)                              hidden -> normed
//   MR_GATED(13, 0, 192, MR_WEIGHT(8), 0, 0)                         normed -> activated
//   MR_PRODUCTS(15, ...)                                             added to hidden
//
// A launch costs the driver 5 to 10 us. A core that sleeps between launches takes 30 to 45 us to
// wake, and the others wait for the work that a late core was given. Together that is more than
// half of a narrow step and a quarter of a wide one. Here groups, one per core, go through the
// phases together. A phase is cut into chunks that groups claim by a counter; a group that finds no
// chunk left waits until all chunks are done. The first argument of a phase is the place of its
// counters in `sync` (table.h).
//
// A group waits only for chunks that others have claimed, that is, for groups that run. So the
// driver may start the others now, later, or after this group has done all the work. If the system
// has taken the core of another away, this group ends when it has waited long, so that the other
// may have this core; the groups that remain do the rest. At least half of them remain, because one
// that has ended is missed until the launch is done. So that it is not missed for long, the host
// cuts the layers of a wide step into several launches. Which group computes a chunk depends on
// time; a chunk's result does not, and neither does the cut of a phase change any bit. In PoCL,
// whose mem_fence is empty and whose atomics acquire and release, the counters order memory; in
// drivers whose atomics do not, mem_fence does.
//
//   table   ulong [layers][LAYER_WORDS]: table.h; an address is 0 where there is no buffer
//   first_layer, layer_count  the layers of this launch in the table
//   phases  uint [PHASES_LAYERS + layer_count * SYNC_WORDS]: table.h, with sync of each layer; zero
//           before and after each launch, as is work (attention/work.h)
//   scratch float [groups][STRIP_FLOATS]
//   memory  addresses of the experts' buffers (experts/table.h), if a layer has experts
//   patience  turns of MR_PAUSE, on x86 processors since 2017 about 20 to 40 ns, that a group may
//           wait in the launch
//   chunk_pairs, chunk_tiles  a chunk of a product in a wide step: pairs of panels by column tiles
//   launch  local (1), one group per core
//   defines WIDTH of the residual stream; HIDDEN_STRIDE, NORMED_STRIDE, ATTENDED_STRIDE,
//           ATTENDED_ROWS_STRIDE, ACTIVATED_STRIDE: from row to row; TILE_TOKENS: QUERIES of tiles
//           of several tokens, beside attention with QUERIES 1; LAYER_WORDS, SYNC_WORDS of a layer
// Codes of `attended` are those of attention or of a recurrence, whose rows may be of other lengths
// than attention's: each is as far from the next as the product that reads it expects.
//
// The host puts before this file the products of each depth (matmul/integer_tiles.cl) and what only
// some families do: norm/heads.cl, norm/add.cl, rope/in_place.cl, rope/temperature.cl,
// activation/sigmoid_gate.cl, experts.cl, and recurrence.cl or convolve.cl.
// Limit: memory for up to about 4 columns, then dot products.
#include "attention/heads.cl"
#include "attention/units.cl"
#include "attention/work.h"
#include "common/prelude.cl"
#include "layer/table.h"
#include "matmul/cut.cl"
#include "matmul/mode.h"
#include "quantize/block.cl"
#include "quantize/gated.cl"
#include "quantize/norm.cl"
#include "quantize/row.cl"
#include "rope/tile.cl"
#include "step/table.cl"

#ifndef WIDTH
#define WIDTH 512
#define HIDDEN_STRIDE WIDTH
#define NORMED_STRIDE (WIDTH / 32 * Q_WORDS)
#define ATTENDED_STRIDE NORMED_STRIDE
#define ATTENDED_ROWS_STRIDE WIDTH
#define ACTIVATED_STRIDE NORMED_STRIDE
#endif
#ifndef TILE_TOKENS
#define TILE_TOKENS 2
#endif
#ifndef LAYER_WORDS
#define LAYER_WORDS 1
#define SYNC_WORDS 2
#endif

#undef QUERIES
#define QUERIES 1
#include "attention/tiles.cl"
#undef QUERIES
#define QUERIES TILE_TOKENS
#include "attention/tiles.cl"

#if defined(__x86_64__)
#define MR_PAUSE() __builtin_ia32_pause()
#else
#define MR_PAUSE()
#endif
typedef volatile __global uint* MrCounter;

// What the operations of a layer read and write, and how a step is cut.
typedef struct {
  __global float* hidden;
  __global int* normed;
  __global float* normed_rows;  // for experts
  __global float* qkv;
  __global int* attended;
  __global float* attended_rows;  // of attention whose outputs are gated
  __global int* activated;
  __global float* branch;
  __global float* sums;  // of this group
  __global const ulong* memory;  // of experts: experts.cl
  __global const uint* step;
  __global float16* partial;
  volatile __global uint* work;
  uint positions, tables, tiles, tile_count, units, unit_count, singles, single_count;
  uint state_rows, state_row_count, columns;
  uint groups, run, width, column_runs, rows;
  float scale, inverse_width, epsilon;
  volatile __global uint* ended;  // groups that have finished or given up
} LayerStep;

// Ends this group, if fewer than half have ended.
static inline bool mr_give_up(const LayerStep* s) {
  for (uint ended = *s->ended; ended < s->groups / 2; ended = *s->ended) {
    if (atomic_cmpxchg(s->ended, ended, ended + 1) == ended) return true;
  }
  return false;
}

// Waits until `done` reaches `count`, usually some microseconds; false if the group gave up.
static inline bool mr_await(const LayerStep* s, uint* patience, MrCounter done, uint count) {
  while (*done < count) {
    MR_PAUSE();
    if (*patience > 0) {
      --*patience;
    } else if (mr_give_up(s)) {
      return false;
    }
  }
  atomic_or(done, 0u);  // acquires what the increments released
  mem_fence(CLK_GLOBAL_MEM_FENCE);
  return true;
}

#define MR_WEIGHT(i) ((__global uchar*)(size_t)at[i])
#define MR_VECTOR(i) ((__global const float*)(size_t)at[i])
#define MR_FLOATS(i) ((__global float*)(size_t)at[i])

// Runs `chunk` for i = 0 .. count - 1, shared by the groups, and waits for all of them.
#define MR_PHASE(place, count, chunk)                        \
  {                                                          \
    for (uint i; (i = atomic_inc(sync + (place) + PHASE_NEXT)) < (count);) { \
      chunk;                                                 \
      mem_fence(CLK_GLOBAL_MEM_FENCE);                       \
      atomic_inc(sync + (place) + PHASE_DONE);               \
    }                                                        \
    if (!mr_await(s, patience, sync + (place) + PHASE_DONE, count)) return false; \
  }

// Runs statements for each row c.
#define MR_ROWS(place, statements)                                               \
  MR_PHASE(place, MR_CEIL(s->columns, s->rows),                                  \
           for (uint c = i * s->rows; c < min((i + 1) * s->rows, s->columns); ++c) { statements })
#define MR_NORM(weight)                                                                        \
  mr_norm_quantize(s->hidden + (size_t)c * HIDDEN_STRIDE, weight,                              \
                   s->normed + (size_t)c * NORMED_STRIDE, WIDTH / 32, s->inverse_width, s->epsilon)
#define MR_CONVERT()                                                                           \
  mr_quantize_row(s->hidden + (size_t)c * HIDDEN_STRIDE, 0, 0.0f, 1.0f, 0, WIDTH / 32u,        \
                  s->normed + (size_t)c * NORMED_STRIDE)
#define MR_NORM_HEADS(qkv_stride, weight)                                           \
  for (uint head = 0; head < NORMS; ++head) {                                       \
    mr_norm_head(s->qkv + (size_t)c * (qkv_stride), weight, head, s->epsilon);      \
  }
#define MR_TURN(qkv_stride, rope)                                                                \
  for (uint head = 0; head < HEADS + KV_HEADS; ++head) {                                         \
    mr_turn_head(s->qkv + (size_t)c * (qkv_stride),                                              \
                 rope + (size_t)s->step[s->positions + c] * TURN_DIM, head);                     \
  }
#define MR_SCALE_QUERIES(qkv_stride, factors) \
  mr_scale_queries(s->qkv + (size_t)c * (qkv_stride), (factors)[s->step[s->positions + c]])
#define MR_ADD(weight, scale, total)                                                               \
  mr_add_branch(s->hidden + (size_t)c * HIDDEN_STRIDE, s->branch + (size_t)c * HIDDEN_STRIDE,     \
                weight, MR_CEIL(WIDTH, 16), s->inverse_width, s->epsilon, scale, total, 0)
// The gates of the heads' outputs lie in qkv, from `gates` on.
#define MR_GATE_ATTENDED(qkv_stride, gates, channels)                                            \
  mr_gate_attended(s->qkv + (size_t)c * (qkv_stride) + (gates),                                  \
                   s->attended_rows + (size_t)c * ATTENDED_ROWS_STRIDE, (channels) / 16u);       \
  mr_quantize_row(s->attended_rows + (size_t)c * ATTENDED_ROWS_STRIDE, 0, 0.0f, 1.0f, 0,         \
                  (channels) / 32u, s->attended + (size_t)c * ATTENDED_STRIDE)
// The gates of embeddings lie in qkv, which a layer no longer reads after its attention.
#define MR_GATE_EMBEDDING(gates_stride, embeddings, embeddings_stride, blocks, out_stride)       \
  mr_quantize_gated(s->qkv + (size_t)c * (gates_stride),                                         \
                    (embeddings) + (size_t)c * (embeddings_stride), blocks,                      \
                    s->activated + (size_t)c * (out_stride), 0, 1)

// Chunk j of a product is `run` of its `units` by `width` columns: neighbours share panels.
#define MR_CHUNKS(units) (MR_CEIL(units, s->run) * s->column_runs)
#define MR_FIRST (j / s->column_runs * s->run)
#define MR_LAST(units) min(MR_FIRST + s->run, (uint)(units))
#define MR_COLUMN ((size_t)(j % s->column_runs * s->width))
#define MR_COLUMNS min(s->width, s->columns - (uint)MR_COLUMN)
#define MR_PAIRS(panels) (((panels) + 1) / 2)
// A matrix whose parts differ in format is several products, whose chunks follow one another. Each
// MR_PRODUCT multiplies the columns, rows of codes x, by a part into rows of floats; `product`
// numbers its format and depth (matmul/layout.cl), and mode has the flags of matmul/mode.h.
#define MR_PRODUCTS(place, count, products) MR_PHASE(place, count, uint j = i; products)
#define MR_PRODUCT(product, panels, weight, bias, x, x_stride, out, out_stride, mode)              \
  {                                                                                                \
    if (j < MR_CHUNKS(MR_PAIRS(panels))) {                                                         \
      MR_JOINED(mr_pairs, product)(weight, x + MR_COLUMN * (x_stride),                             \
                                   out + MR_COLUMN * (out_stride), bias, panels, MR_FIRST,         \
                                   MR_LAST(MR_PAIRS(panels)), s->groups * s->run, MR_COLUMNS,      \
                                   MR_CEIL(MR_COLUMNS, TILE), out_stride, mode);                   \
    }                                                                                              \
    j -= MR_CHUNKS(MR_PAIRS(panels)); /* wraps after this part, and so enters no other */          \
  }
#define MR_GATED(place, product, panels, weight, bias, mode)                                      \
  MR_PHASE(place, MR_CHUNKS((panels) / 4), const uint j = i;                                      \
           MR_JOINED(mr_gate_up, product)(                                                        \
               weight, s->normed + MR_COLUMN * NORMED_STRIDE,                                     \
               s->activated + MR_COLUMN * ACTIVATED_STRIDE, bias, s->sums, panels, MR_FIRST,      \
               MR_LAST((panels) / 4), s->groups * s->run, MR_COLUMNS, MR_CEIL(MR_COLUMNS, TILE),  \
               ACTIVATED_STRIDE, mode))

// Stores the tokens of tiles of several. Neighbouring tiles write to the same cache lines, so a
// group takes several of them.
#define MR_STORE(place, kv, means, sinks, rope, qkv_stride)                                       \
  if (s->tile_count > 0) {                                                                        \
    const uint stores = clamp(s->tile_count / (4 * s->groups), 1u, 8u);                           \
    MR_PHASE(place, MR_CEIL(s->tile_count, stores),                                               \
             for (uint t = i * stores; t < min((i + 1) * stores, s->tile_count); ++t)             \
               mr_store_tile(s->qkv, rope, means, kv, s->step, s->positions, s->tables,           \
                             mr_tile_record(s->step, s->tiles, t), qkv_stride))                   \
  }
#define MR_ATTEND(place, out_rows, out_codes, kv, means, sinks, rope, qkv_stride)           \
  {                                                                                         \
    const Attention attention = {                                                           \
        s->qkv,     rope,         means,        sinks,     kv,         s->step, out_rows,   \
        out_codes, s->partial,  s->work + WORK_CUTS, s->positions, s->tables,               \
        qkv_stride, ATTENDED_ROWS_STRIDE, ATTENDED_STRIDE, s->scale};                       \
    MR_JOINED(mr_attend, TILE_TOKENS)(&attention, s->units, s->unit_count,                  \
                                      sync + (place) + PHASE_NEXT,                          \
                                      sync + (place) + PHASE_DONE);                         \
    MR_JOINED(mr_attend, 1)(&attention, s->singles, s->single_count,                        \
                            sync + (place) + PHASE_NEXT_SINGLE,                             \
                            sync + (place) + PHASE_DONE);                                   \
    if (!mr_await(s, patience, sync + (place) + PHASE_DONE,                                 \
                  (s->unit_count + s->single_count) * KV_HEADS)) {                          \
      return false;                                                                         \
    }                                                                                       \
  }

// Computes a layer with the other groups; false if this group gave up.
static inline bool mr_layer(const LayerStep* s, uint* patience, __global const ulong* at,
                            volatile __global uint* sync);

__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void layers(__global const ulong* table, uint first_layer, uint layer_count,
            __global float* hidden, __global int* normed, __global float* normed_rows,
            __global float* qkv, __global int* attended, __global float* attended_rows,
            __global int* activated, __global float* branch, __global float* scratch,
            __global const ulong* memory,
            __global const uint* step, __global float16* partial,
            volatile __global uint* work, volatile __global uint* phases, uint positions,
            uint tables, uint tiles, uint tile_count, uint units, uint unit_count, uint singles,
            uint single_count, uint state_rows, uint state_row_count, uint columns,
            uint chunk_pairs, uint chunk_tiles, uint patience, float scale, float inverse_width,
            float epsilon) {
  const uint groups = (uint)get_num_groups(0);
  uint width = columns > 16 ? TILE * chunk_tiles : columns;
  if (MR_MATRIX(columns)) width = MR_CEIL(width, MATRIX_TILE) * MATRIX_TILE;
  const LayerStep s = {hidden,
                       normed,
                       normed_rows,
                       qkv,
                       attended,
                       attended_rows,
                       activated,
                       branch,
                       scratch + get_group_id(0) * STRIP_FLOATS,
                       memory,
                       step,
                       partial,
                       work,
                       positions,
                       tables,
                       tiles,
                       tile_count,
                       units,
                       unit_count,
                       singles,
                       single_count,
                       state_rows,
                       state_row_count,
                       columns,
                       groups,
                       columns > 16 ? chunk_pairs : 1,
                       width,
                       MR_CEIL(columns, width),
                       clamp(columns / (16 * groups), 1u, 16u),
                       scale,
                       inverse_width,
                       epsilon,
                       phases + PHASES_ENDED};
  for (uint l = 0; l < layer_count; ++l) {
    volatile __global uint* sync = phases + PHASES_LAYERS + l * SYNC_WORDS;
    if (!mr_layer(&s, &patience, table + (first_layer + l) * LAYER_WORDS, sync)) return;
  }
  if (atomic_inc(phases + PHASES_ENDED) == groups - 1) {
    for (uint i = 0; i < layer_count * SYNC_WORDS; ++i) phases[PHASES_LAYERS + i] = 0;
    atomic_xchg(phases + PHASES_ENDED, 0);
  }
}
