// The product of a tile (tiles.cl) with values that are channels of plain keys (heads.cl).
//
// Keys lie position-fastest, so a block of 16 channels of a page is turned over in registers, once
// for all rows of the tile.
#include "attention/rows.cl"
#include "attention/units.cl"
#include "kv/layout.cl"
#include "kv/vectors.cl"

#if VALUES_IN_KEYS
#ifndef MR_TURNED_OVER
#define MR_TURNED_OVER
// Turns [16][16] numbers over. A round puts the vectors i and i + 8 into one another, number by
// number; four rounds bring row i, column j to row j, column i.
static inline void mr_turn_over(float16* x) {
  float16 y[16];
  _Pragma("unroll") for (uint round = 0; round < 4; ++round) {
    _Pragma("unroll") for (uint i = 0; i < 8; ++i) {
      const float16 a = x[i], b = x[i + 8];
      y[2 * i] = (float16)(a.s0, b.s0, a.s1, b.s1, a.s2, b.s2, a.s3, b.s3, a.s4, b.s4, a.s5, b.s5,
                           a.s6, b.s6, a.s7, b.s7);
      y[2 * i + 1] = (float16)(a.s8, b.s8, a.s9, b.s9, a.sa, b.sa, a.sb, b.sb, a.sc, b.sc, a.sd,
                               b.sd, a.se, b.se, a.sf, b.sf);
    }
    _Pragma("unroll") for (uint i = 0; i < 16; ++i) x[i] = y[i];
  }
}
#endif

// Computes a[row][channel block] for BLOCKS_AT_ONCE blocks from `block` on, over `count` positions.
static inline void MR_Q(mr_values)(const Unit* unit, const float* e, __global const uint* pages,
                                   const Ahead* ahead, uint count, uint block, float16* out) {
  float16 a[ROWS * BLOCKS_AT_ONCE];
  _Pragma("unroll") for (uint i = 0; i < ROWS * BLOCKS_AT_ONCE; ++i) a[i] = (float16)(0.0f);
  for (uint first = 0; first < count; first += PAGE_TOKENS, e += PAGE_TOKENS) {
    __global const MR_KEY(MrNumber)* keys =
        (__global const MR_KEY(MrNumber)*)(unit->kv + mr_keys_at(pages[first / PAGE_TOKENS],
                                                                 unit->kv_head)) +
        (VALUE_FIRST + block * 16) * PAGE_TOKENS;
    const uint seen = min(count - first, (uint)PAGE_TOKENS);
    for (uint b = 0; b < BLOCKS_AT_ONCE; ++b, keys += 16 * PAGE_TOKENS) {
      float16 v[16];
      _Pragma("unroll") for (uint i = 0; i < 16; ++i) v[i] = MR_KEY(mr_floats)(keys + i * 16);
      mr_turn_over(v);
      for (uint j = 0; j < seen; ++j) {
        _Pragma("unroll") for (uint r = 0; r < ROWS; ++r)
            a[b * ROWS + r] = fma((float16)(e[r * E_STRIDE + j]), v[j], a[b * ROWS + r]);
      }
    }
  }
  _Pragma("unroll") for (uint b = 0; b < BLOCKS_AT_ONCE; ++b) {
    _Pragma("unroll") for (uint r = 0; r < ROWS; ++r)
        out[r * VALUE_BLOCKS + block + b] = a[b * ROWS + r];
  }
}
#endif
