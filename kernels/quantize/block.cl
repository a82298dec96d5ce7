#pragma once
// Quantizes activations for integer products, to blocks of codes (code_block.h). A row is one block
// after the other; rows are `stride` words apart, a multiple of four.
//
//   top  = largest |v|; a top below 1e-37 gives zeros
//   s    = top * (1/127)
//   code = nearest even of v * (127 * mr_recip(top)), clamped to +-127
//
// With CODE_HALVES 1 the codes are the nearest halves instead, which stand in panels of rows.
//
// If a number of a block is not finite, neither is the block's scale, and so it shows in every
// result that uses the block. Sums are of integers, hence exact in any order.
#include "common/halves.cl"
#include "common/math.cl"
#include "common/prelude.cl"
#include "quantize/code_block.h"

#ifndef CODE_HALVES
#define CODE_HALVES 0
#endif
// A row of codes, of all that are `stride` words long.
#if CODE_HALVES
typedef struct {
  __global uint4* all;
  uint row, vectors;
} CodeRow;

static inline CodeRow mr_code_row(__global int* all, uint row, uint stride) {
  const CodeRow out = {(__global uint4*)all, row, stride / 4};
  return out;
}
#else
typedef __global int* CodeRow;

static inline CodeRow mr_code_row(__global int* all, uint row, uint stride) {
  return all + (size_t)row * stride;
}
#endif

static inline int mr_largest16(int16 v) {
  int8 a = max(v.lo, v.hi);
  int4 b = max(a.lo, a.hi);
  int2 c = max(b.lo, b.hi);
  return max(c.x, c.y);
}

static inline int mr_add16(int16 v) {
  int8 a = v.lo + v.hi;
  int4 b = a.lo + a.hi;
  int2 c = b.lo + b.hi;
  return c.x + c.y;
}

// Rounds v * inverse, which is far below 2^22, by adding 1.5 * 2^23.
static inline int16 mr_codes16(float16 v, float inverse) {
  const float16 magic = (float16)(12582912.0f);
  const int16 code = as_int16(fma(v, (float16)(inverse), magic)) - (int16)(0x4b400000);
  return clamp(code, (int16)(-127), (int16)(127));
}

// Returns the largest magnitude among a block's channels. As integers, magnitudes are ordered like
// floats, with infinity and NaN above all.
static inline float mr_top(float16 first, float16 second) {
  const int16 size = (int16)(0x7fffffff);
  return as_float(mr_largest16(max(as_int16(first) & size, as_int16(second) & size)));
}

// Stores channels 0..15 and 16..31 of a block whose scale is known.
static inline void mr_store_block(float16 first, float16 second, float scale, float inverse,
                                  __global int* out) {
  const int16 a = mr_codes16(first, inverse), b = mr_codes16(second, inverse);
  // One reduction adds both halves: neither sum exceeds 16 bits.
  const int sums = mr_add16(a + (b << 16));
  const int sum_a = sums << 16 >> 16, sum = sum_a + ((sums - sum_a) >> 16);
  ((__global int4*)out)[0] = as_int4(convert_char16(a));
  ((__global int4*)out)[1] = as_int4(convert_char16(b));
  out[Q_SCALE] = as_int(scale);
  out[Q_SUM] = as_int(scale * (float)sum);
  out[Q_OFFSET] = -8 * sum;
  out[Q_OFFSET_HALF] = -8 * sum_a;
}

#if CODE_HALVES
static inline uint4 mr_halves8(float8 v) {
  return (uint4)(mr_halves(v.s0, v.s1), mr_halves(v.s2, v.s3), mr_halves(v.s4, v.s5),
                 mr_halves(v.s6, v.s7));
}
// Converts block `block` of a row.
static inline void mr_quantize(float16 first, float16 second, CodeRow out, uint block) {
  const float16 a = first * H_SCALE, b = second * H_SCALE;
  const float8 vectors[4] = {a.lo, a.hi, b.lo, b.hi};
  MR_EACH(i, 4) {
    out.all[H_VECTOR_AT((size_t)out.row, block * 4 + i, out.vectors)] = mr_halves8(vectors[i]);
  }
}
#else
// Quantizes block `block` of a row.
static inline void mr_quantize(float16 first, float16 second, CodeRow out, uint block) {
  const float top = mr_top(first, second);
  const bool none = top < 1e-37f;
  mr_store_block(first, second, none ? 0.0f : top * 0.00787401571869850158691f,
                 none ? 0.0f : 127.0f * mr_recip(top), out + block * Q_WORDS);
}
#endif

// Up to 32 blocks are quantized together, because a block alone is one chain of operations from its
// first channel to its sums. First come their tops, one after the other, which overlap; then 16
// scales at a time; then the codes.
typedef struct {
  float top[Q_TOGETHER], scale[Q_TOGETHER], inverse[Q_TOGETHER];
} Tops;

// Clears the tops before they are filled in: mr_scales also reads those that no block fills.
static inline void mr_no_tops(Tops* blocks) {
  for (uint i = 0; i < Q_TOGETHER / 16; ++i) vstore16((float16)(0.0f), i, blocks->top);
}

// Computes the scales of `count` blocks from their tops.
static inline void mr_scales(Tops* blocks, uint count) {
  for (uint i = 0; i < (count + 15) / 16; ++i) {
    const float16 top = vload16(i, blocks->top);
    const int16 none = top < (float16)(1e-37f);
    const float16 scale = top * (float16)(0.00787401571869850158691f);
    const float16 inverse = (float16)(127.0f) * mr_recip16(top);
    vstore16(select(scale, (float16)(0.0f), none), i, blocks->scale);
    vstore16(select(inverse, (float16)(0.0f), none), i, blocks->inverse);
  }
}
