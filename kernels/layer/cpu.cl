// Runs consecutive layers of a step in one launch, each: norm, q k v, attention, output, norm, gate
// and up, down. It calls the functions of the separate kernels (quantize/norm.cl,
// matmul/integer_tiles.cl, rope/tile.cl, attention/tiles.cl), so it gives the same bits.
//
// A launch costs the driver 5 to 10 us. A core that sleeps between launches takes 30 to 45 us to
// wake, and the others wait for the work that a late core was given. Together that is more than
// half of a narrow step and a quarter of a wide one. Here groups, one per core, go through the
// phases together. A phase is cut into chunks that groups claim by a counter; a group that finds no
// chunk left waits until all chunks are done:
//
//   phase 0   columns: norm                      -> normed      sync[0] next chunk, sync[1] done
//         1   panels x columns: QKV              -> qkv         sync[2], sync[3]
//         2   tiles of several tokens: store     -> kv          ...
//         3   units of attention, of such tiles, -> attended    sync[6] next, sync[7] units done
//             then of single tokens                             sync[16] next
//         4   panels x columns: O                -> hidden
//         5   columns: norm                      -> normed
//         6   blocks x columns: gate and up      -> activated
//         7   panels x columns: DOWN             -> hidden
//
// A group waits only for chunks that others have claimed, that is, for groups that run. So the
// driver may start the others now, later, or after this group has done all the work. Which group
// computes a chunk depends on time; a chunk's result does not, and neither does the cut of a phase
// change any bit. In PoCL, whose mem_fence is empty and whose atomics acquire and release, the
// counters order memory; in drivers whose atomics do not, mem_fence does.
//
//   table   ulong [layers][LAYER_WORDS]: the addresses of a layer's weights, vectors and cache, in
//           the order of `at` below; 0 where there is none
//   phases  uint [1 + layers * SYNC_WORDS]: groups that have finished, then sync of each layer;
//           zero before and after each launch, as is work (attention/cpu.cl)
//   scratch float [groups][STRIP_FLOATS]
//   chunk_pairs, chunk_tiles  a chunk of a product in a wide step: pairs of panels by column tiles
//   launch  local (1), one group per core
//   defines of all parts, and QKV_K, O_K, GATE_UP_K, DOWN_K with one set of tiles each;
//           QKV_PANELS, O_PANELS, GATE_UP_PANELS, DOWN_PANELS; HIDDEN_STRIDE, NORMED_STRIDE,
//           ATTENDED_STRIDE, ACTIVATED_STRIDE: from row to row; QKV_BIAS, O_BIAS, GATE_UP_BIAS,
//           DOWN_BIAS: 1 where a product has one; TILE_TOKENS: QUERIES of tiles of several tokens,
//           beside attention with QUERIES 1
// Limit: memory for up to about 4 columns, then dot products.
#if defined(__x86_64__)
#define MR_PAUSE() __builtin_ia32_pause()
#else
#define MR_PAUSE()
#endif
// Calls sched_yield by its system call number: a kernel has no C library.
#if defined(__x86_64__) && defined(__linux__)
#define MR_YIELD()                                                                              \
  {                                                                                             \
    long result = 24;                                                                           \
    __asm__ volatile("syscall" : "+a"(result) : : "rcx", "r11", "memory");                      \
  }
#else
#define MR_YIELD()
#endif
#define SPINS 500  // 10 to 20 us
#define MR_AT(name, number) MR_JOINED(name, number)
typedef volatile __global uint* MrCounter;

// Waits until `done` reaches `count`. The others usually need some microseconds more. If the system
// has taken their core away, yielding gives them this one.
static inline void mr_await(MrCounter done, uint count) {
  for (uint spins = 1; *done < count; ++spins) {
    MR_PAUSE();
    if (spins % SPINS == 0) MR_YIELD();
  }
  atomic_or(done, 0u);  // acquires what the increments released
  mem_fence(CLK_GLOBAL_MEM_FENCE);
}

// Runs `chunk` for i = 0 .. count - 1, shared by the groups, and waits for all of them.
#define MR_PHASE(phase, count, chunk)                                               \
  {                                                                                 \
    for (uint i; (i = atomic_inc(sync + 2 * (phase))) < (count);) {                 \
      chunk;                                                                        \
      mem_fence(CLK_GLOBAL_MEM_FENCE);                                              \
      atomic_inc(sync + 2 * (phase) + 1);                                           \
    }                                                                               \
    mr_await(sync + 2 * (phase) + 1, count);                                        \
  }

#define MR_RUNS(count, run) (((count) + (run)-1) / (run))
// Chunk i of a product is `run` of its `units` by `width` columns: neighbours share panels.
#define MR_CHUNKS(units) (MR_RUNS(units, run) * column_runs)
#define MR_FIRST (i / column_runs * run)
#define MR_LAST(units) min(MR_FIRST + run, (uint)(units))
#define MR_COLUMN ((size_t)(i % column_runs * width))
#define MR_COLUMNS min(width, columns - (uint)MR_COLUMN)
#define MR_PAIRS(panels) (((panels) + 1) / 2)
// Multiplies the columns, rows of codes x, into rows of floats, which it replaces (mode 0) or adds
// to (mode 1).
#define MR_PRODUCT(phase, name, weight, x, x_stride, out, out_stride, bias, mode)                 \
  MR_PHASE(phase, MR_CHUNKS(MR_PAIRS(name##_PANELS)),                                             \
           MR_AT(mr_pairs, name##_K)(weight, x + MR_COLUMN * (x_stride),                          \
                                     out + MR_COLUMN * (out_stride), bias, name##_PANELS,         \
                                     MR_FIRST, MR_LAST(MR_PAIRS(name##_PANELS)), groups * run,    \
                                     MR_COLUMNS, MR_RUNS(MR_COLUMNS, TILE), out_stride,           \
                                     (mode) + 2 * name##_BIAS))
#define MR_NORM(phase, weight, k)                                                                 \
  MR_PHASE(phase, MR_RUNS(columns, rows),                                                         \
           for (uint c = i * rows; c < min((i + 1) * rows, columns); ++c)                         \
             mr_norm_quantize(hidden + (size_t)c * HIDDEN_STRIDE, weight,                         \
                              normed + (size_t)c * NORMED_STRIDE, (k) / 32, inverse_width,        \
                              epsilon))

#define MR_WEIGHT(i) ((__global const uchar*)(size_t)at[i])
#define MR_VECTOR(i) ((__global const float*)(size_t)at[i])

__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void layers(__global const ulong* table, uint layer_count, __global float* hidden,
            __global int* normed, __global float* qkv, __global int* attended,
            __global int* activated, __global float* scratch, __global const float* rope,
            __global const uint* step, __global float16* partial, volatile __global uint* work,
            volatile __global uint* phases, uint positions, uint tables, uint tiles,
            uint tile_count, uint units, uint unit_count, uint singles, uint single_count,
            uint columns, uint chunk_pairs, uint chunk_tiles, float scale, float inverse_width,
            float epsilon) {
  const uint groups = (uint)get_num_groups(0);
  __global float* sums = scratch + get_group_id(0) * STRIP_FLOATS;
  const uint run = columns > 16 ? chunk_pairs : 1;
  const uint width = columns > 16 ? TILE * chunk_tiles : columns;
  const uint column_runs = MR_RUNS(columns, width);
  const uint rows = clamp(columns / (16 * groups), 1u, 16u);
  for (uint l = 0; l < layer_count; ++l) {
    volatile __global uint* sync = phases + 1 + l * SYNC_WORDS;
    __global const ulong* at = table + l * LAYER_WORDS;
    __global const uchar* qkv_weight = MR_WEIGHT(0);
    __global const uchar* o_weight = MR_WEIGHT(1);
    __global const uchar* gate_up_weight = MR_WEIGHT(2);
    __global const uchar* down_weight = MR_WEIGHT(3);
    __global const float* qkv_bias = MR_VECTOR(4);
    __global const float* o_bias = MR_VECTOR(5);
    __global const float* gate_up_bias = MR_VECTOR(6);
    __global const float* down_bias = MR_VECTOR(7);
    __global const float* attention_norm = MR_VECTOR(8);
    __global const float* ffn_norm = MR_VECTOR(9);
    __global uchar* kv = (__global uchar*)(size_t)at[10];
    __global const float* means = MR_VECTOR(11);
    __global const float* sinks = MR_VECTOR(12);
    MR_NORM(0, attention_norm, QKV_K)
    MR_PRODUCT(1, QKV, qkv_weight, normed, NORMED_STRIDE, qkv, QKV_PANELS * 16, qkv_bias, 0)
    if (tile_count > 0) {
      // Neighbouring tiles write to the same cache lines, so a group takes several of them.
      const uint stores = clamp(tile_count / (4 * groups), 1u, 8u);
      MR_PHASE(2, MR_RUNS(tile_count, stores),
               for (uint t = i * stores; t < min((i + 1) * stores, tile_count); ++t)
                 mr_store_tile(qkv, rope, means, kv, step, positions, tables, step + tiles + 2 * t,
                               QKV_PANELS * 16))
    }
    const Attention attention = {qkv,      rope,    means,    sinks,     kv,     step, 0,
                                 attended, partial, work + 2, positions, tables,
                                 QKV_PANELS * 16, 0, ATTENDED_STRIDE, scale};
    MR_AT(mr_attend, TILE_TOKENS)(&attention, units, unit_count, sync + 6, sync + 7);
    MR_AT(mr_attend, 1)(&attention, singles, single_count, sync + 16, sync + 7);
    mr_await(sync + 7, (unit_count + single_count) * KV_HEADS);
    MR_PRODUCT(4, O, o_weight, attended, ATTENDED_STRIDE, hidden, HIDDEN_STRIDE, o_bias, 1)
    MR_NORM(5, ffn_norm, GATE_UP_K)
    MR_PHASE(6, MR_CHUNKS(GATE_UP_PANELS / 4),
             MR_AT(mr_gate_up, GATE_UP_K)(
                 gate_up_weight, normed + MR_COLUMN * NORMED_STRIDE,
                 activated + MR_COLUMN * ACTIVATED_STRIDE, gate_up_bias, sums, GATE_UP_PANELS,
                 MR_FIRST, MR_LAST(GATE_UP_PANELS / 4), groups * run, MR_COLUMNS,
                 MR_RUNS(MR_COLUMNS, TILE), ACTIVATED_STRIDE, 2 * GATE_UP_BIAS))
    MR_PRODUCT(7, DOWN, down_weight, activated, ACTIVATED_STRIDE, hidden, HIDDEN_STRIDE, down_bias,
               1)
  }
  if (atomic_inc(phases) == groups - 1) {
    for (uint i = 1; i < 1 + layer_count * SYNC_WORDS; ++i) phases[i] = 0;
    atomic_xchg(phases, 0);
  }
}
