// Rotates keys, and writes keys and values into their pages. Arguments and rounding: generic.cl;
// `tiles` gives two words a tile: first token, number of tokens, all of one sequence. Other tokens
// are not touched: attention/cpu.cl does the same for tiles of one token by itself. qkv is only
// read: queries are rotated there too.
//
//   launch one group a tile, local (1)
// Limit: memory, little of it.
__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void rope_kv(__global const float* qkv, __global const float* rope, __global ushort* kv,
             __global const uint* step, uint positions, uint tables, uint tiles, uint qkv_stride) {
  const uint tile = tiles + 2 * (uint)get_group_id(0);
  const uint first = step[tile], tokens = step[tile + 1];
  for (uint token = first; token < first + tokens; ++token) {
    const uint position = step[positions + token];
    const uint page = step[step[tables + token] + position / PAGE_TOKENS];
    for (uint g = 0; g < KV_HEADS; ++g) {
      mr_store_token(qkv + (size_t)token * qkv_stride, rope + (size_t)position * ROPE_DIM, kv, page,
                     position % PAGE_TOKENS, g);
    }
  }
}
