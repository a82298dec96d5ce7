// Rotates queries in place, rotates keys, and writes keys and values into their pages. Arguments
// and rounding: generic.cl; `tiles` gives two words a tile: first token, number of tokens, all of
// one sequence. Keys are not written back to qkv. Other tokens are not touched: attention/cpu.cl
// does the same for tiles of one token by itself.
//
//   launch one group a tile, local (1)
// Limit: memory, little of it.
__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void rope_kv(__global float* qkv, __global const float* rope, __global ushort* kv,
             __global const uint* step, uint positions, uint tables, uint tiles, uint qkv_stride) {
  const uint tile = tiles + 2 * (uint)get_group_id(0);
  const uint first = step[tile], tokens = step[tile + 1];
  for (uint token = first; token < first + tokens; ++token) {
    const uint position = step[positions + token];
    const uint page = step[step[tables + token] + position / PAGE_TOKENS];
    __global float* row = qkv + (size_t)token * qkv_stride;
    __global const float* turns = rope + (size_t)position * ROPE_DIM;
    for (uint h = 0; h < HEADS; ++h) {
      float head[HEAD_DIM];
      mr_rotate_head(row + h * HEAD_DIM, turns, head);
      for (uint d = 0; d < HEAD_DIM; d += 16) {
        mr_store16(mr_take16(head + d), row + h * HEAD_DIM + d);
      }
    }
    for (uint g = 0; g < KV_HEADS; ++g) {
      mr_store_token(row, turns, kv, page, position % PAGE_TOKENS, g);
    }
  }
}
