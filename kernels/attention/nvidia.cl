// Causal attention of NVIDIA GPUs on the matrix unit in math fast, over keys and values that are
// plain halves. Packed codes: nvidia_levels.cl. Other codecs, values in keys, centered keys and
// math exact: generic.cl.
//
//   qkv, sinks, kv, step   as for generic.cl
//   rope      float2 [positions][ROPE_DIM / 2], where units have one token each and the launch is
//             to rotate queries and keys, and to store keys and values (own_token.cl); or null
//   out       float [tokens][out_stride], or null
//   codes     rows of code_stride words of halves of out (quantize/code_block.h), or null
//   bytes     rows of bytes of codes, which must not be null then, or null (byte_outputs.cl)
//   partials  results of segments of tiles that are cut: per row and set of heads
//             MATRIX_PARTIAL_FLOATS(HEAD_DIM) floats (work.h)
//   counters  of tiles that are cut, [counter][HEAD_SETS], zero before and after each launch
//   written   of tiles whose rows become bytes, by their first token, zero before and after
//   units     where the MatrixUnits of the launch begin in `step`, one for each group
//   launch    groups (HEAD_SETS, units) of (32, GROUP_WARPS) work-items
//
// Contract, the same whatever the tile, the batch, the chunks of a prompt and the groups. Scores
// count in powers of two: with u = scale * log2 e (with SOFT_CAP: scale, and log2 e afterwards),
//     s_j  = sum over channels of half(q * u) * k_j, by the unit, chunks of 16 channels ascending
//            from 0; minus infinity for a key that the query does not see
//   in a segment of 256 keys (generic.cl), blocks of 32 at absolute positions come in order. m is
//   the largest s_j so far, less 11, and f = 2^(m before - m) at each block:
//     w_j  = 2^(s_j - m)
//     l    = l * f, plus the sum of half(w_j); a = a * f, plus the sum of half(w_j) * v_j: by the
//            unit, pages of 16 keys ascending
//   segments are merged left to right as in generic.cl, with 2^x (mr_power) in place of mr_exp.
// Weights reach up to 2^11, so that those far below the largest are still normal halves; the
// factor cancels. A block of which a query sees nothing changes nothing of its own: f is 1, and its
// weights are 0. So a tile may hold queries that see different keys.
//
// Queries are rounded to halves, as keys are, and so are weights: the error of an output is that
// of 11 bits in each. A query beyond the halves (65504 / u) makes its own output NaN or infinite.
// NaN among the values of a sequence reaches the rows of one tile, which are of that sequence.
//
// A warp has 16 rows: WARP_TOKENS tokens times GROUP query heads. Keys and values come to local
// memory in a ring of RING blocks each. With SHARED_ROWS 0 the warps of a group have neighbouring
// tokens of one sequence, and share its blocks; the group goes through the segments of its unit.
// With 1 the unit is one segment; all warps have the same rows (blocks.cl), and each makes the
// weights of all keys anew. If a unit does not have all segments of its tile, the group that is
// done last folds the results of all.
// Limit: few tokens a sequence: memory; prompts: the unit, and reads of local memory, an operand
// for two instructions.
//
// Defines besides those of generic.cl: RING, at most 7; GROUP_WARPS, which is 4 with SHARED_ROWS 1;
// HEAD_SETS (heads.cl), so that GROUP is at most 16.
#include "attention/blocks.cl"
#include "attention/byte_outputs.cl"
#include "attention/half_results.cl"
#include "attention/own_token.cl"
#include "attention/results.cl"
#include "attention/shape.cl"
#include "attention/unit.cl"
#include "attention/warp.cl"
#include "attention/weights.cl"
#include "attention/work.h"
#include "common/halves.cl"
#include "common/math.cl"
#include "common/prelude.cl"
#include "kv/layout.cl"
#include "matmul/mma.cl"
#include "step/table.cl"

#define GOES_ON (!SHARED_ROWS)  // from one segment to the next

__kernel __attribute__((reqd_work_group_size(32, GROUP_WARPS, 1)))
void attention(__global const float* qkv, __global const float2* rope,
               __global const float* sinks, __global uchar* kv, __global const uint* step,
               __global float* out, __global ushort* codes, __global uint2* bytes,
               __global float* partials, volatile __global uint* counters,
               volatile __global uint* written, uint units, uint qkv_stride, uint out_stride,
               uint code_stride, float scale) {
  MR_MMA_MEMORY
  MR_QUAD_MEMORY
#if ROW_BYTES
  MR_BYTES_MEMORY
#endif
  __local uint4 keys[RING * KEY_BLOCK_VECTORS];
  __local uint4 values[RING * VALUE_BLOCK_VECTORS];
  __local uint pages[KEPT_PAGES], arrived[1];
#if LOCAL_QUERIES
  __local uint4 query_memory[(SHARED_ROWS ? 1 : GROUP_WARPS) * CHUNKS * 32];
#endif
#if SHARED_ROWS
  // Scores of a block, and before the first of them rotated queries.
  __local float4 score_memory[KEY_TILES * 32 > OWN_QUERY_VECTORS ? KEY_TILES * 32
                                                                 : OWN_QUERY_VECTORS];
#endif
#if GOES_ON
  __local float row_memory[GROUP_WARPS * MATRIX_ROWS * HEAD_DIM];  // sums of segments before
#endif
  const uint lane = (uint)get_local_id(0), warp = (uint)get_local_id(1), t = lane % 4;
  const uint item = warp * 32 + lane;
  // The warp's rows are those of the tile's warp tile_warp, its chunks of channels begin here.
  const uint tile_warp = SHARED_ROWS ? 0 : warp, chunk = SHARED_ROWS ? warp * OWN_CHUNKS : 0;
  Work work;
  mr_begin_work(&work, kv, step, units, pages, item);
  const MatrixUnit* unit = &work.unit;
#if OWN_TOKEN
  // Whether the token's own block is among those that the ring begins with.
  const int early = work.end - work.begin <= RING;
  const int stores = rope != 0 && work.end * KEY_BLOCK > work.source.last;
  OwnToken token;
  if (rope != 0) {
    mr_load_own(&token, qkv + (size_t)unit->token * qkv_stride,
                rope + (size_t)unit->position * (ROPE_DIM / 2), work.set,
                work.set / (HEAD_SETS / KV_HEADS), item);
  }
  if (stores && early) mr_store_unit(kv, &token, &work, item);
  MR_GROUP_BARRIER();
#endif
  mr_fill_ring(keys, values, &work, item);
#if OWN_TOKEN
  if (stores && !early) mr_store_unit(kv, &token, &work, item);
#endif
  Rows own;
  mr_rows_of(&own, unit, work.set, tile_warp, lane);
#ifndef SOFT_CAP
  scale = scale * MR_LOG2_E;
#endif
  __local const uint* turned_own = 0;
#if OWN_TOKEN
  if (rope != 0) {
    mr_turn_own((__local uint*)score_memory, &token, scale, item);
    turned_own = (__local const uint*)score_memory;
  }
  MR_GROUP_BARRIER();
#endif
#if LOCAL_QUERIES
  __local uint4* q = query_memory + tile_warp * (CHUNKS * 32);
#else
  uint q[CHUNKS][4];
#endif
  mr_load_queries(q, qkv, &own, turned_own, qkv_stride, scale, warp, lane);
#if GOES_ON
  Before before;
  before.a = row_memory + warp * (MATRIX_ROWS * HEAD_DIM) + lane;
#endif
  Sums sums;
  uint stage = 0, stage_before = RING - 1;
  _Pragma("unroll 1") for (uint block = work.begin; block < work.end; ++block) {
    if (block == work.begin || block % SEGMENT_BLOCKS == 0) {
      mr_clear(&sums);
    }
    __local uint4* block_keys = keys + stage * KEY_BLOCK_VECTORS;
    __local uint4* block_values = values + stage * VALUE_BLOCK_VECTORS;
#if GOES_ON
    const uint next_page = (block / SEGMENT_BLOCKS + 1) * SEGMENT_PAGES;
    uint next = 0;
    if (block % SEGMENT_BLOCKS == 0 && next_page + item <= work.source.last_page) {
      next = work.table[next_page + item];
    }
#endif
    // The keys have arrived, and all have left the values before.
    MR_WAIT_FOR_COPIES(2 * RING - 2);
    MR_GROUP_BARRIER();
    mr_fetch_values(values, &work, stage_before, block + RING - 1, item);
    const uint first = block * KEY_BLOCK;
    const int sees = !MATRIX_UNIT || (own.any_to >= first && own.any_from < first + KEY_BLOCK);
    float s[KEY_TILES][4];
#if SHARED_ROWS
    mr_one_tile(s[0], q, block_keys, warp, lane MR_MMA_ARGUMENT);
    score_memory[item] = (float4)(s[0][0], s[0][1], s[0][2], s[0][3]);
#else
    if (sees) mr_all_tiles(s, q, block_keys, lane MR_MMA_ARGUMENT);
#endif
    // The values have arrived, and all have left the keys.
    MR_WAIT_FOR_COPIES(2 * RING - 2);
    MR_GROUP_BARRIER();
    mr_fetch_keys(keys, &work, stage, block + RING, item);
#if SHARED_ROWS
    MR_UNIT_EACH(n, KEY_TILES) {
      const float4 of = score_memory[n * 32 + lane];
      s[n][0] = of.x;
      s[n][1] = of.y;
      s[n][2] = of.z;
      s[n][3] = of.w;
    }
#endif
    if (sees) {
      uint w[BLOCK_PAGES][4];
      mr_mask(s, &own, block, t);
      mr_weights(w, s, &sums, own.later MR_QUAD_ARGUMENT);
      mr_add_block(&sums, s, w, block_values, chunk, lane MR_MMA_ARGUMENT);
    }
#if GOES_ON
    // Those of the segment after the next take the place of those of the segment before.
    if (block % SEGMENT_BLOCKS == 0 && block != work.begin && item < SEGMENT_PAGES) {
      pages[(next_page + item) % KEPT_PAGES] = next;
    }
#endif
    stage_before = stage;
    stage = stage + 1 == RING ? 0 : stage + 1;
    const uint segment = block / SEGMENT_BLOCKS;
    const int ends = block % SEGMENT_BLOCKS == SEGMENT_BLOCKS - 1 || block + 1 == work.end;
    if (ends && unit->parts > 0) {
      mr_put_partials(partials, unit, &own, &sums, work.set, segment - work.segment, chunk, t);
    }
#if GOES_ON
    if (ends && unit->parts == 0) {
      if (segment > unit->first) mr_fold_before(&before, &sums);
      if (block + 1 < work.end) mr_keep(&before, &sums);
    }
#endif
  }
  const Outputs outputs = {out, codes, out_stride, code_stride};
  int writes = 1;
  if (unit->parts > 0) {
    writes = mr_end_cut(partials, counters, unit, work.set,
                        work.source.last / SEGMENT_TOKENS - work.segment + 1, sinks, &outputs, 0,
                        arrived, item);
  } else {
    mr_put_outputs(&outputs, &own, &sums, sinks, chunk, t);
  }
#if ROW_BYTES
  mr_finish_bytes((__global const uint4*)codes, bytes, written, unit, writes, code_stride, arrived,
                  item, tops, all);
#else
  (void)writes;
#endif
}
