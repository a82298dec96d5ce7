#pragma once
// Numbers as integers of two digits, and queries as operands of them (level_blocks.cl).
#include "attention/bytes.cl"
#include "attention/level_operands.cl"
#include "attention/warp.cl"
#include "common/prelude.cl"
#include "kv/layout.cl"

#if LEVELS
#define HIGH_BEGIN 0x4f400000  // 1.5 * 2^31
#define LOW_BEGIN 0x4b400000   // 1.5 * 2^23
#define LOW_FLOAT 12582912.0f
#define BOTH_FLOAT 3233808384.0f  // the sum of both, which is a float

// Numbers of which the largest has these bits, without its sign, become integers of at most 2^14 as
// multiples of `unit`, a power of two. The unit of numbers with NaN or an infinity is NaN.
MR_GROUP_INLINE float mr_unit_of(uint size, float* inverse) {
  const uint exponent = max(size & 0x7f800000u, 27u << 23);
  *inverse = as_float((267u << 23) - exponent);
  return size < 0x7f800000u ? as_float(exponent - (13u << 23)) : NAN;
}
MR_GROUP_INLINE uint mr_size_of(float x) { return as_uint(x) & 0x7fffffffu; }
// Four of them, as words of high and low digits.
MR_GROUP_INLINE void mr_digits(uint* high, uint* low, const float* x, float inverse) {
  uint n[4];  // low digits plus 128
  MR_EACH(i, 4) n[i] = as_uint(fma(x[i], inverse, LOW_FLOAT + 128.0f));
  const uint first = mr_permute(n[0], n[1], 0x4051), second = mr_permute(n[2], n[3], 0x4051);
  *high = mr_permute(first, second, 0x5410);
  *low = mr_permute(first, second, 0x7632) ^ 0x80808080u;
}

// The queries of a warp as operand b, [chunk][tile]: in registers, or in local memory where tiles
// are several.
#define LEVEL_QUERIES (LEVEL_CHUNKS * ROW_TILES)
#if ROW_TILES == 1
typedef uint (*LevelQueries)[2];
#else
typedef __local uint2* LevelQueries;  // [LEVEL_QUERIES][32]
#endif

// What a row of queries has besides, in local memory: the unit of its scores, times `scale` and
// what levels count in; and for affine keys, the sum of its integers for each set of channels.
#define QUERY_SUMS (KEY_KIND == KV_AFFINE ? KEY_SETS : 0)
#define QUERY_FLOATS (1 + QUERY_SUMS)
#if KEY_KIND == KV_AFFINE
#define SCORE_UNIT 1.0f
#else
#define SCORE_UNIT (KEY_STEP / HEAD_DIM)
#endif

// Makes operands of the queries of the lane's columns, where they exist.
MR_GROUP_INLINE void mr_level_queries(LevelQueries q, __local float* row_floats,
                                      __global const float* const* queries, float scale,
                                      uint lane MR_QUAD_PARAMETER) {
  const uint g = lane / 4, t = lane % 4;
  MR_UNIT_EACH(n, ROW_TILES) {
    float4 own[LEVEL_CHUNKS][2];
    uint size = 0;
    MR_UNIT_EACH(c, LEVEL_CHUNKS) {
      MR_EACH(i, 2) {
        own[c][i] = (float4)(0.0f);
        if (queries[n] != 0) {
          own[c][i] = *(__global const float4*)(queries[n] + 32 * c + KEY_QUAD(t, i));
        }
        size = max(max(size, mr_size_of(own[c][i].x)), mr_size_of(own[c][i].y));
        size = max(max(size, mr_size_of(own[c][i].z)), mr_size_of(own[c][i].w));
      }
    }
    size = max(size, mr_other(size, 1));
    size = max(size, mr_other(size, 2));
    float inverse;
    const float unit = mr_unit_of(size, &inverse);
    __local float* floats = row_floats + (4 * n + g / 2) * QUERY_FLOATS;
    const int writes = t == 0 && g % 2 == 0;
    if (writes) floats[0] = unit * scale * SCORE_UNIT;
    MR_UNIT_EACH(set, QUERY_SUMS) {
      float sum = 0.0f;
      MR_UNIT_EACH(c, KEY_SET_CHUNKS) {
        MR_EACH(i, 2) {
          const float4 integers = fma(own[set * KEY_SET_CHUNKS + c][i], (float4)(inverse),
                                      (float4)(LOW_FLOAT)) - (float4)(LOW_FLOAT);
          sum += (integers.x + integers.y) + (integers.z + integers.w);
        }
      }
      sum += as_float(mr_other(as_uint(sum), 1));
      sum += as_float(mr_other(as_uint(sum), 2));
      if (writes) floats[1 + set] = sum;
    }
    MR_UNIT_EACH(c, LEVEL_CHUNKS) {
      const float4 a = own[c][0], b = own[c][1];
#if KEY_KIND == KV_AFFINE
      const float first[4] = {a.x, a.y, a.z, a.w}, second[4] = {b.x, b.y, b.z, b.w};
#else
      const float first[4] = {a.x, b.x, a.y, b.y}, second[4] = {a.z, b.z, a.w, b.w};
#endif
      uint words[2];
      MR_EACH(i, 2) {
        uint high, low;
        mr_digits(&high, &low, i == 0 ? first : second, inverse);
        words[i] = g % 2 == 0 ? high : low;
      }
#if ROW_TILES == 1
      MR_EACH(i, 2) q[c][i] = words[i];
#else
      q[(c * ROW_TILES + n) * 32 + lane] = (uint2)(words[0], words[1]);
#endif
    }
  }
  MR_WARP_BARRIER();
}
MR_GROUP_INLINE void mr_level_query(uint* words, LevelQueries q, uint c, uint n, uint lane) {
#if ROW_TILES == 1
  MR_EACH(i, 2) words[i] = q[c][i];
#else
  const uint2 loaded = q[(c * ROW_TILES + n) * 32 + lane];
  words[0] = loaded.x;
  words[1] = loaded.y;
#endif
}
#endif
