#pragma once
// Packed codes: the layout of their bits, and the rotation of the rotated codecs.
//
// Sixteen lanes hold 32-bit words. A lane's codes come in quads. In a key (lane = position) a quad
// is four channels 4j .. 4j+3; in a value (lane = channel % 16) it is four positions, and quad j =
// 4 * (channel / 16) + position / 4. A code of 8, 6, 5, 4, 3, 2 bits is split into a low plane of
// 8, 4, 4, 4, 2, 2 bits and a high plane of 0, 2, 1, 0, 1, 0. In a plane of p bits,
//
//   member i of quad j is at bit 8 * i + p * (j % (8 / p)) of word j / (8 / p), words [.][16 lanes]
//
// so that a shift and a mask of a word give a quad as four bytes, the form that dot products take.
// The low plane comes first.
#include "kv/layout.cl"

// Writes bits `from` to `from + p - 1` of codes[HEAD_DIM] of the key at `slot`.
static inline void mr_put_key_plane(__global uint* plane, const int* codes, uint from, uint p,
                                    uint slot) {
  for (uint word = 0; word < HEAD_DIM * p / 32; ++word, codes += 32 / p) {
    uint bits = 0;
    for (uint m = 0; m < 8 / p; ++m) {
      for (uint i = 0; i < 4; ++i) {
        bits |= ((uint)codes[4 * m + i] >> from & ((1u << p) - 1)) << (8 * i + p * m);
      }
    }
    plane[word * 16 + slot] = bits;
  }
}

// Does the same for the value at `slot`. Its words are shared with the page's other positions. With
// ATOMIC_VALUES, work-items may write them at the same time, and each changes only its own bits
// atomically. Without it, only one work-item at a time may write to a page.
static inline void mr_put_value_plane(__global uint* plane, const int16* codes, uint from, uint p,
                                      uint slot) {
  for (uint c = 0; c < CHANNEL_BLOCKS; ++c) {
    const uint j = 4 * c + slot / 4, bit = 8 * (slot % 4) + p * (j % (8 / p));
    const uint16 mask = (uint16)(((1u << p) - 1) << bit);
    const uint16 bits = as_uint16(codes[c]) >> from << bit & mask;
    __global uint* to = plane + j / (8 / p) * 16;
#ifdef ATOMIC_VALUES
    const uint* lanes = (const uint*)&bits;
    for (uint l = 0; l < 16; ++l) atomic_xor(to + l, (to[l] ^ lanes[l]) & mask.s0);
#else
    *(__global uint16*)to = (*(__global const uint16*)to & ~mask) | bits;
#endif
  }
}

// Rounds x to the nearest half, ties to even, clamped to +-65504.
static inline float mr_as_half(float x) {
  ushort bits;
  vstore_half_rte(clamp(x, -65504.0f, 65504.0f), 0, (half*)&bits);
  return vload_half(0, (const half*)&bits);
}

// Multiplies x[HEAD_DIM] by H[i][j] = (-1)^popcount(i & j): sums and differences of lanes 1, 2, 4,
// 8 apart, then of vectors 1, 2, ... apart.
#define MR_BUTTERFLY(v, shuffled, sign) fma(v, sign, (v).shuffled)
static inline void mr_hadamard(float16* x) {
  const float16 one = (float16)(1, -1, 1, -1, 1, -1, 1, -1, 1, -1, 1, -1, 1, -1, 1, -1);
  const float16 two = (float16)(1, 1, -1, -1, 1, 1, -1, -1, 1, 1, -1, -1, 1, 1, -1, -1);
  const float16 four = (float16)(1, 1, 1, 1, -1, -1, -1, -1, 1, 1, 1, 1, -1, -1, -1, -1);
  const float16 eight = (float16)(1, 1, 1, 1, 1, 1, 1, 1, -1, -1, -1, -1, -1, -1, -1, -1);
  for (uint c = 0; c < CHANNEL_BLOCKS; ++c) {
    float16 v = x[c];
    v = MR_BUTTERFLY(v, s1032547698badcfe, one);
    v = MR_BUTTERFLY(v, s23016745ab89efcd, two);
    v = MR_BUTTERFLY(v, s45670123cdef89ab, four);
    x[c] = MR_BUTTERFLY(v, s89abcdef01234567, eight);
  }
  for (uint h = 1; h < CHANNEL_BLOCKS; h *= 2) {
    for (uint c = 0; c < CHANNEL_BLOCKS; ++c) {
      if ((c & h) != 0) continue;
      const float16 a = x[c], b = x[c + h];
      x[c] = a + b;
      x[c + h] = a - b;
    }
  }
}

// Multiplies x by the signs whose bits are in `words`: a set bit i is -1.
static inline void mr_flip(float16* x, __constant const uint* words) {
  const uint16 lane = (uint16)(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
  for (uint c = 0; c < CHANNEL_BLOCKS; ++c) {
    const uint16 bits = (uint16)(words[c / 2] >> (c % 2 * 16)) >> lane << 31;
    x[c] = as_float16(as_uint16(x[c]) ^ bits);
  }
}

// Write both planes of a token's codes.
static inline void mr_put_key(__global uint* plane, const int16* codes, uint slot, uint low,
                              uint high) {
  mr_put_key_plane(plane, (const int*)codes, 0, low, slot);
  if (high > 0) {
    mr_put_key_plane(plane + HEAD_DIM / 2 * low, (const int*)codes, low, high, slot);
  }
}
static inline void mr_put_value(__global uint* plane, const int16* codes, uint slot, uint low,
                                uint high) {
  mr_put_value_plane(plane, codes, 0, low, slot);
  if (high > 0) mr_put_value_plane(plane + HEAD_DIM / 2 * low, codes, low, high, slot);
}

// Reads one code: member i of quad j in `lane`.
static inline uint mr_code_at(__global const uchar* codes, uint low, uint high, uint j, uint i,
                              uint lane) {
  __global const uint* plane = (__global const uint*)codes;
  uint code = plane[j / (8 / low) * 16 + lane] >> (8 * i + low * (j % (8 / low)));
  code &= (1u << low) - 1;
  if (high > 0) {
    plane += HEAD_DIM / 2 * low;
    const uint quads = 8 / high;  // in a word
    const uint more = plane[j / quads * 16 + lane] >> (8 * i + high * (j % quads));
    code |= (more & ((1u << high) - 1)) << low;
  }
  return code;
}
