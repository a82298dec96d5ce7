// A whole layer of a step whose rows have one token each, in one launch: norm, q k v, attention,
// output, norm, gate and up, down. The arithmetic is that of the kernels it is made of
// (quantize/norm.cl, matmul/integer_tiles.cl, attention/cpu.cl), so its bits are theirs.
//
// A launch costs 5 to 10 us of the driver, and a core that sleeps between launches as much again to
// wake: with seven launches a layer more than half of a narrow step. Here groups, one a core, go
// through the phases together. A phase is cut into chunks that groups claim by a counter; who comes
// to its end waits until all chunks are done:
//
//   phase 0   1 norm a column       -> normed     sync[0] next chunk, sync[1] chunks done
//         1   pairs of panels, QKV  -> qkv        sync[2], sync[3]
//         2   units of attention    -> attended   work[0], sync[5]
//         3   pairs of panels, O    -> hidden     ...
//         4   1 norm a column       -> normed
//         5   blocks of gate and up -> activated
//         6   pairs of panels, DOWN -> hidden     sync[14] counts the groups that are through
//
// A group waits only for chunks that others have claimed, that is, for groups which run: it makes
// no difference whether the driver starts the others now, later, or after this one has done it all.
// Which group computes a chunk depends on time; what a chunk computes does not.
//
//   sync    uint [16], zero before and after each launch, as is work (attention/cpu.cl)
//   scratch float [groups][STRIP_FLOATS]
//   launch  local (1), groups: one a core
//   defines of all parts, and QKV_K, O_K, GATE_UP_K, DOWN_K with one set of tiles each;
//           QKV_PANELS, O_PANELS, GATE_UP_PANELS, DOWN_PANELS; HIDDEN_STRIDE, NORMED_STRIDE,
//           ATTENDED_STRIDE, ACTIVATED_STRIDE: from row to row; QKV_BIAS, O_BIAS, GATE_UP_BIAS,
//           DOWN_BIAS: 1 where a product has one
// Limit: memory for up to about 4 rows, then dot products.
#if defined(__x86_64__)
#define MR_PAUSE() __builtin_ia32_pause()
#else
#define MR_PAUSE()
#endif
#define MR_AT_K(name, k) MR_JOINED(name, k)
#define MR_COLUMN_TILES ((columns + TILE - 1) / TILE)
// Units of `unit` panels in runs: how many, and from where to where run i goes.
#define MR_UNITS(panels, unit) (((panels) + (unit)-1) / (unit))
#define MR_RUNS(panels, unit) ((MR_UNITS(panels, unit) + run - 1) / run)
#define MR_RUN(panels, unit) i * run, min((i + 1) * run, (uint)MR_UNITS(panels, unit))
typedef volatile __global uint* MrCounter;

static inline void mr_await(MrCounter done, uint count) {
  while (*done < count) MR_PAUSE();
  mem_fence(CLK_GLOBAL_MEM_FENCE);
}

// Carries out `chunk` for i = 0 .. count - 1, shared by the groups, and waits for all of them.
#define MR_PHASE(phase, count, chunk)                                               \
  {                                                                                 \
    for (uint i; (i = atomic_inc(sync + 2 * (phase))) < (count);) {                 \
      chunk;                                                                        \
      mem_fence(CLK_GLOBAL_MEM_FENCE);                                              \
      atomic_inc(sync + 2 * (phase) + 1);                                           \
    }                                                                               \
    mr_await(sync + 2 * (phase) + 1, count);                                        \
  }

__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void layer(__global const uchar* qkv_weight, __global const uchar* o_weight,
           __global const uchar* gate_up_weight, __global const uchar* down_weight,
           __global const float* qkv_bias, __global const float* o_bias,
           __global const float* gate_up_bias, __global const float* down_bias,
           __global const float* attention_norm, __global const float* ffn_norm,
           __global float* hidden, __global int* normed, __global float* qkv,
           __global int* attended, __global int* activated, __global float* scratch,
           __global const float* rope, __global ushort* kv, __global const uint* step,
           __global float16* partial, volatile __global uint* work, volatile __global uint* sync,
           uint positions, uint tables, uint units, uint unit_count, uint columns, float scale,
           float inverse_width, float epsilon) {
  const uint groups = (uint)get_num_groups(0);
  // With many columns a chunk's words of x are worth keeping in the first-level cache, too.
  const uint run = columns > 16 ? 3 : 1;
  __global float* sums = scratch + get_group_id(0) * STRIP_FLOATS;
  MR_PHASE(0, columns,
           mr_norm_quantize(hidden + (size_t)i * HIDDEN_STRIDE, attention_norm,
                            normed + (size_t)i * NORMED_STRIDE, QKV_K / 32, inverse_width,
                            epsilon))
  MR_PHASE(1, MR_RUNS(QKV_PANELS, 2),
           MR_AT_K(mr_pairs, QKV_K)(qkv_weight, normed, qkv, qkv_bias, QKV_PANELS,
                                    MR_RUN(QKV_PANELS, 2), groups * run, columns,
                                    MR_COLUMN_TILES, QKV_PANELS * 16, 2 * QKV_BIAS))
  mr_attend(qkv, rope, kv, step, 0, partial, work, sync + 5, positions, tables, units, unit_count,
            QKV_PANELS * 16, 0, attended, ATTENDED_STRIDE, scale);
  mr_await(sync + 5, unit_count * KV_HEADS);
  MR_PHASE(3, MR_RUNS(O_PANELS, 2),
           MR_AT_K(mr_pairs, O_K)(o_weight, attended, hidden, o_bias, O_PANELS,
                                  MR_RUN(O_PANELS, 2), groups * run, columns, MR_COLUMN_TILES,
                                  HIDDEN_STRIDE, 1 + 2 * O_BIAS))
  MR_PHASE(4, columns,
           mr_norm_quantize(hidden + (size_t)i * HIDDEN_STRIDE, ffn_norm,
                            normed + (size_t)i * NORMED_STRIDE, GATE_UP_K / 32, inverse_width,
                            epsilon))
  MR_PHASE(5, MR_RUNS(GATE_UP_PANELS, 4),
           MR_AT_K(mr_gate_up, GATE_UP_K)(gate_up_weight, normed, activated, gate_up_bias, sums,
                                          GATE_UP_PANELS, MR_RUN(GATE_UP_PANELS, 4),
                                          groups * run, columns, MR_COLUMN_TILES,
                                          ACTIVATED_STRIDE, 2 * GATE_UP_BIAS))
  MR_PHASE(6, MR_RUNS(DOWN_PANELS, 2),
           MR_AT_K(mr_pairs, DOWN_K)(down_weight, activated, hidden, down_bias, DOWN_PANELS,
                                     MR_RUN(DOWN_PANELS, 2), groups * run, columns,
                                     MR_COLUMN_TILES, HIDDEN_STRIDE, 1 + 2 * DOWN_BIAS))
  if (atomic_inc(sync + 14) == groups - 1) {
    for (uint i = 0; i < 15; ++i) atomic_xchg(sync + i, 0);
    atomic_xchg(work, 0);
  }
}
