// Keys rotated, and keys and values written into their pages, for a tile: `words` gives its first
// token and their number, all of one sequence. Rounding: generic.cl. qkv is only read: queries are
// rotated where they are read (attention/tiles.cl), and there, too, a token that is alone in its
// tile is stored.
static inline void mr_store_tile(__global const float* qkv, __global const float* rope,
                                 __global ushort* kv, __global const uint* step, uint positions,
                                 uint tables, __global const uint* words, uint qkv_stride) {
  for (uint token = words[0]; token < words[0] + words[1]; ++token) {
    const uint position = step[positions + token];
    const uint page = step[step[tables + token] + position / PAGE_TOKENS];
    for (uint g = 0; g < KV_HEADS; ++g) {
      mr_store_token(qkv + (size_t)token * qkv_stride, rope + (size_t)position * ROPE_DIM, kv, page,
                     position % PAGE_TOKENS, g);
    }
  }
}
