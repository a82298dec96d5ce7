// Rotates keys, and writes keys and values into their pages, tile by tile (tile.cl). generic.cl
// defines arguments and rounding; `tiles` tells where the tiles are in `step` (step/records.h).
// Tokens outside the tiles are left alone.
//
//   launch one group per tile, local (1)
// Limit: memory, of which it moves little; keys lie channel by channel, so it stores single halves.
#include "rope/tile.cl"
#include "step/table.cl"

__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void rope_kv(__global const float* qkv, __global const float* rope, __global const float* means,
             __global uchar* kv, __global const uint* step, uint positions, uint tables, uint tiles,
             uint qkv_stride) {
  mr_store_tile(qkv, rope, means, kv, step, positions, tables,
                mr_tile_record(step, tiles, (uint)get_group_id(0)), qkv_stride);
}
