// Causal attention of NVIDIA GPUs on the matrix unit in math fast, over packed keys and values, in
// affine codes of 2, 3, 4 and 8 bits and rotated ones of 2, 3 and 4: in integers. Arguments are
// those of nvidia.cl, without a rope and bytes, and so are segments and the merging of segments.
//
//   launch    narrow units: groups (HEAD_SETS, units, tokens) of one warp, a token of a unit each;
//             wide ones (HEAD_SETS, units) of GROUP_WARPS warps
//
// Contract, the same whatever the tile, the batch, the chunks of a prompt and the groups, in the
// numbers of the integer definition in generic.cl (b and STEP, norm_j, scale_j, bias_j, signs). For
// rotated keys rope_kv has left H (signs * q) in the place of q (rope/nvidia.cl). Of numbers x of
// which the largest has the exponent e, at least -100: short(x) is the nearest even of x / unit,
// and unit is 2^(e - 13), so that no magnitude is above 2^14. Sums of integers are exact. Scores
// count in powers of two: scale has log2 e in it, or it follows SOFT_CAP.
//     n    = short(q) of a head
//     s_j, rotated keys:  ((float)(sum of n * b) * (unit * scale * (STEP / HEAD_DIM))) * norm_j
//     s_j, affine keys:   x * (unit * scale), where by groups, ascending, from 0,
//                         x = fma((float)(sum of n * b), scale_j, fma(sum of n, bias_j, x))
//     minus infinity for a key that the query does not see
//   in a segment, blocks of 64 in order; m' is the largest s_j of the block, m that so far, and
//   f = 2^(m before - m), g = 2^(m' - m):
//     w_j  = 2^(s_j - m')
//     n_j  = short(w_j * norm_j) over the block; affine values: short(w_j * scale_j), by groups
//     l    = lane j / 4 % 8 adds the sum of (w_j + w_j+1) + (w_j+2 + w_j+3) for both j, times g, to
//            l * f, by fma; at the segment's end neighbours, then pairs, then fours are added
//     a    = fma((float)(sum of n_j * b), unit * g, a * f)
//     affine values: for each group c likewise, where the lane's sum is that of w_j * bias_j, in
//            order of j, by fma; at the end, a = a + c
//   out, rotated values: times STEP / HEAD_DIM after H, signs
// A block of which a query sees nothing changes nothing of its own. So a tile may hold queries that
// see different keys.
//
// Where (float)(a sum) rounds to nearest even. Of NaN in the parameters of a tile's values all its
// rows may have some.
// Limit: memory in decoding; in prompts instructions.
//
// Defines besides those of generic.cl: LEVELS, which is 1; RING, at most 3; GROUP_WARPS; WARP_PARTS
// (level_operands.cl); HEAD_SETS (heads.cl), so that GROUP is at most 16; BULK_COPIES
// (level_copies.cl). HEAD_DIM is a multiple of 32, at most 256.
#include "attention/blocks.cl"
#include "attention/level_blocks.cl"
#include "attention/level_copies.cl"
#include "attention/level_results.cl"
#include "attention/results.cl"
#include "attention/shape.cl"
#include "attention/unit.cl"
#include "attention/warp.cl"
#include "attention/work.h"
#include "common/math.cl"
#include "common/prelude.cl"
#include "kv/layout.cl"
#include "matmul/mma.cl"
#include "step/table.cl"

#if LEVELS
#define WARP_FLOATS (4 * ROW_TILES * HEAD_DIM)
#define ROW_VECTORS (GROUP_WARPS * WARP_FLOATS / 4)
// A warp alone has left its keys before it writes rows.
#define ROWS_IN_KEYS (LONE && ROW_VECTORS <= RING * KEY_BLOCK_VECTORS)

// Where the results of a narrow unit's token begin, and what counts its segments that are done: as
// those of a tile of this token alone.
MR_GROUP_INLINE void mr_take_token(Work* work, uint token) {
  MatrixUnit* unit = &work->unit;
  unit->partial += token * unit->parts * GROUP;
  unit->counter += token;
  unit->token += token;
  unit->position += token;
  unit->tokens = 1;
}

__kernel __attribute__((reqd_work_group_size(32, GROUP_WARPS, 1)))
void attention(__global const float* qkv, __global const float2* rope,
               __global const float* sinks, __global uchar* kv, __global const uint* step,
               __global float* out, __global ushort* codes, __global uint2* bytes,
               __global float* partials, volatile __global uint* counters,
               volatile __global uint* written, uint units, uint qkv_stride, uint out_stride,
               uint code_stride, float scale) {
  MR_MMA_MEMORY
  MR_QUAD_MEMORY
  MR_RING_MEMORY
  __local uint4 keys[RING * KEY_BLOCK_VECTORS];
  __local uint4 values[RING * VALUE_BLOCK_VECTORS];
#if ROWS_IN_KEYS
  __local float* row_memory = (__local float*)keys;  // outputs
#else
  __local float4 row_vectors[ROW_VECTORS];  // sums of segments before, or outputs
  __local float* row_memory = (__local float*)row_vectors;
#endif
  __local uint pages[KEPT_PAGES], arrived[1];
  __local float query_floats[GROUP_WARPS * 4 * ROW_TILES * QUERY_FLOATS];
  __local uint weight_memory[GROUP_WARPS * WEIGHT_WORDS];
#if !LONE
  __local uint4 operands[2 * KEY_OPERANDS * 32];
  __local float4 parameter_memory[BLOCK_PARAMETERS / 4];
  __local float* parameters = (__local float*)parameter_memory;
#endif
#if ROW_TILES > 1
  __local uint2 query_memory[GROUP_WARPS * LEVEL_QUERIES * 32];
#endif
  const uint lane = (uint)get_local_id(0), warp = (uint)get_local_id(1), g = lane / 4;
  const uint item = warp * 32 + lane;
  const uint token = LONE ? (uint)get_group_id(2) : 0;
  if (token >= mr_matrix_unit(step, units, (uint)get_group_id(1))->tokens) return;
  Work work;
  mr_begin_ring(item MR_RING_ARGUMENT);
  mr_begin_work(&work, kv, step, units, pages, item);
  if (LONE) mr_take_token(&work, token);
  const MatrixUnit* unit = &work.unit;
  mr_fill_levels(keys, values, &work, item MR_RING_ARGUMENT);
  LevelRows own;
  mr_level_rows(&own, unit, work.set, warp, lane % 4);
#ifndef SOFT_CAP
  scale = scale * MR_LOG2_E;
#endif
#if ROW_TILES == 1
  uint q[LEVEL_QUERIES][2];
#else
  __local uint2* q = query_memory + warp * (LEVEL_QUERIES * 32);
#endif
  __local float* row_floats = query_floats + warp * (4 * ROW_TILES * QUERY_FLOATS);
  __global const float* queries[ROW_TILES];  // of the lane's columns
  MR_UNIT_EACH(n, ROW_TILES) {
    const uint row = 4 * n + g / 2, offset = warp * LEVEL_TOKENS + row / GROUP;
    const int exists = row < LEVEL_ROWS && offset < unit->tokens;
    queries[n] = qkv + (size_t)(unit->token + offset) * qkv_stride +
                 (work.set * GROUP + row % GROUP) * HEAD_DIM;
    if (!exists) queries[n] = 0;
  }
  mr_level_queries(q, row_floats, queries, scale, lane MR_QUAD_ARGUMENT);
  LevelsBefore before;
  before.a = row_memory + warp * WARP_FLOATS + lane;
  LevelSums sums;
  mr_clear_levels(&sums);
  uint stage = 0, stage_before = RING - 1, phase = 0;
  _Pragma("unroll 1") for (uint block = work.begin; block < work.end; ++block) {
    __local uint4* block_keys = keys + stage * KEY_BLOCK_VECTORS;
    __local uint4* block_values = values + stage * VALUE_BLOCK_VECTORS;
    const uint next_page = (block / SEGMENT_BLOCKS + 1) * SEGMENT_PAGES;
    uint next = 0;
    if (!LONE && block % SEGMENT_BLOCKS == 0 && next_page + item <= work.source.last_page) {
      next = work.table[next_page + item];
    }
    const uint first = block * KEY_BLOCK;
    const int sees = !MATRIX_UNIT || (own.any_to >= first && own.any_from < first + KEY_BLOCK);
    float s[ROW_TILES][4 * HALVES];
#if LONE
    const LevelBlock here = {block, block_keys, block_values};
    // The keys have arrived, and all have left the values before.
    mr_await_keys(stage, phase MR_RING_ARGUMENT);
    MR_GROUP_BARRIER();
    mr_level_values(values, &work, stage_before, block + RING - 1, item MR_RING_ARGUMENT);
#else
    const LevelBlock here = {block, operands, parameters};
    // The block has arrived, and all have left the operands before.
    mr_await_block(stage, phase MR_RING_ARGUMENT);
    MR_GROUP_BARRIER();
    mr_expand_block(operands, parameters, block_keys, block_values, &work.source, block, warp,
                    lane);
    MR_GROUP_BARRIER();
    mr_level_keys(keys, &work, stage, block + RING, item MR_RING_ARGUMENT);
    mr_level_values(values, &work, stage, block + RING, item MR_RING_ARGUMENT);
#endif
    if (sees) mr_level_scores(s, q, row_floats, &here, lane MR_MMA_ARGUMENT);
#if LONE
    // The values have arrived, and all have left the keys.
    mr_await_values(stage, phase MR_RING_ARGUMENT);
    MR_GROUP_BARRIER();
    mr_level_keys(keys, &work, stage, block + RING, item MR_RING_ARGUMENT);
#endif
    if (sees) {
      BlockFactors factors;
      mr_mask_levels(s, &own, block, g);
      mr_level_weights(s, &factors, &sums MR_QUAD_ARGUMENT);
      mr_add_levels(&sums, s, &factors, &here, &work.source, weight_memory + warp * WEIGHT_WORDS,
                    lane MR_QUAD_ARGUMENT MR_MMA_ARGUMENT);
    }
    stage_before = stage;
    stage = stage + 1 == RING ? 0 : stage + 1;
    if (stage == 0) phase ^= 1;
#if !LONE
    // Those of the segment after the next take the place of those of the segment before.
    if (block % SEGMENT_BLOCKS == 0 && block != work.begin && item < SEGMENT_PAGES) {
      pages[(next_page + item) % KEPT_PAGES] = next;
    }
    const uint segment = block / SEGMENT_BLOCKS;
    if (block % SEGMENT_BLOCKS == SEGMENT_BLOCKS - 1 || block + 1 == work.end) {
      mr_end_levels(&sums MR_QUAD_ARGUMENT);
      if (unit->parts > 0) {
        mr_put_level_partials(partials, unit, &own, &sums, work.set, segment - work.segment, g);
      } else {
        if (segment > unit->first) mr_fold_levels(&before, &sums);
        if (block + 1 < work.end) mr_keep_levels(&before, &sums);
      }
      if (block + 1 < work.end) mr_clear_levels(&sums);
    }
#endif
  }
#if LONE
  mr_end_levels(&sums MR_QUAD_ARGUMENT);
  if (unit->parts > 0) {
    mr_put_level_partials(partials, unit, &own, &sums, work.set, unit->first - work.segment, g);
  }
#endif
  MR_GROUP_BARRIER();  // other warps have read their sums, where rows go now
  const Outputs outputs = {out, codes, out_stride, code_stride};
  int writes = 1;
  if (unit->parts > 0) {
    const uint segments = LONE ? unit->parts : work.source.last / SEGMENT_TOKENS - work.segment + 1;
    writes = mr_end_cut(partials, counters, unit, work.set, segments, sinks, &outputs, row_memory,
                        arrived, item);
  } else {
    mr_put_level_outputs(&outputs, &own, &sums, sinks, row_memory, g);
  }
#if VALUE_KIND == KV_ROTATED
  barrier(CLK_LOCAL_MEM_FENCE);  // all rows are there, before a branch, which PoCL needs
  if (writes) mr_turn_back(row_memory, unit, work.set, &outputs, item);
#endif
}
#endif
