#pragma once
// Sums of products of four unsigned weight codes and four signed activation codes in each of 16
// lanes, with the instructions that the processor has. All forms are exact, so they give the same
// results.
//
//   DOT 0  plain vectors
//   DOT 1  AVX2:       vpmaddubsw, vpmaddwd in two halves
//   DOT 2  AVX-512BW:  the same, whole
//   DOT 3  AVX-512VNNI: vpdpbusd
//   DOT 4  the same for few columns; for more, AMX (matmul/matrix_tile.cl)
//
// vpmaddubsw adds pairs of products into 16 bits with saturation. Codes of 4 bits cannot saturate
// in a whole block: 8 words x 2 x 15 x 127 = 30480. Longer codes, and levels, are split into halves
// of 4 bits, which are summed apart; vpmaddwd combines them with factors 1 and 16. So with DOT 1
// and 2 there are two forms of each name, such as Code_whole and Code_split; with the others, which
// cannot saturate, there is the first.
//
//   Code            the form of a word of 16 rows that products take
//   Sum             running sums of a run of words, at most a block
//   mr_sum_start    empty sums, or initial where the sums are int32
//   mr_products     adds the products of a word and a column's word, the same for all rows
//   mr_sum_total    the sums and initial, int16
#include "matmul/target.cl"

#if DOT >= 3 || DOT == 0
typedef struct {
  int16 w;
} Code_whole;
typedef int16 Sum_whole;

static inline MR_TARGET_INLINE Code_whole mr_code_of_whole(int16 word) {
  Code_whole out;
  out.w = word;
  return out;
}

static inline MR_TARGET_INLINE Sum_whole mr_sum_start_whole(int16 initial) {
  return initial;
}

static inline MR_TARGET_INLINE int16 mr_sum_total_whole(Sum_whole sum, int16 initial) {
  return sum;
}

static inline MR_TARGET_INLINE Sum_whole mr_products_whole(Sum_whole sum, Code_whole code, int x) {
#if DOT >= 3
  return __builtin_ia32_vpdpbusd512(sum, code.w, (int16)(x));
#else
  const int16 byte = (int16)(255);
  sum += (code.w & byte) * (int16)(x << 24 >> 24);
  sum += (code.w >> 8 & byte) * (int16)(x << 16 >> 24);
  sum += (code.w >> 16 & byte) * (int16)(x << 8 >> 24);
  return sum + (code.w >> 24 & byte) * (int16)(x >> 24);
#endif
}

#else
typedef char MrBytes __attribute__((ext_vector_type(64)));
typedef short MrShorts __attribute__((ext_vector_type(32)));
#if DOT == 1
typedef char MrHalfBytes __attribute__((ext_vector_type(32)));
typedef short MrHalfShorts __attribute__((ext_vector_type(16)));
typedef struct {
  MrHalfShorts lo, hi;
} Shorts;

static inline MR_TARGET_INLINE Shorts mr_zero_shorts(void) {
  Shorts out;
  out.lo = (MrHalfShorts)(0);
  out.hi = (MrHalfShorts)(0);
  return out;
}

static inline MR_TARGET_INLINE Shorts mr_add_pairs(Shorts sum, int16 w, int x) {
  const MrHalfBytes b = __builtin_astype((int8)(x), MrHalfBytes);
  const MrHalfBytes lo = __builtin_astype(w.lo, MrHalfBytes);
  const MrHalfBytes hi = __builtin_astype(w.hi, MrHalfBytes);
  sum.lo += __builtin_astype(__builtin_ia32_pmaddubsw256(lo, b), MrHalfShorts);
  sum.hi += __builtin_astype(__builtin_ia32_pmaddubsw256(hi, b), MrHalfShorts);
  return sum;
}

static inline MR_TARGET_INLINE int16 mr_times(Shorts sum, short factor) {
  const MrHalfShorts f = (MrHalfShorts)(factor);
  int16 out;
  out.lo = __builtin_astype(__builtin_ia32_pmaddwd256(sum.lo, f), int8);
  out.hi = __builtin_astype(__builtin_ia32_pmaddwd256(sum.hi, f), int8);
  return out;
}
#else
typedef MrShorts Shorts;

static inline MR_TARGET_INLINE Shorts mr_zero_shorts(void) {
  return (MrShorts)(0);
}

static inline MR_TARGET_INLINE Shorts mr_add_pairs(Shorts sum, int16 w, int x) {
  const MrBytes a = __builtin_astype(w, MrBytes), b = __builtin_astype((int16)(x), MrBytes);
  return sum + __builtin_astype(__builtin_ia32_pmaddubsw512(a, b), MrShorts);
}

static inline MR_TARGET_INLINE int16 mr_times(Shorts sum, short factor) {
  return __builtin_astype(__builtin_ia32_pmaddwd512(sum, (MrShorts)(factor)), int16);
}
#endif

typedef struct {
  int16 w;
} Code_whole;
typedef Shorts Sum_whole;

static inline MR_TARGET_INLINE Code_whole mr_code_of_whole(int16 word) {
  Code_whole out;
  out.w = word;
  return out;
}

static inline MR_TARGET_INLINE Sum_whole mr_sum_start_whole(int16 initial) {
  return mr_zero_shorts();
}

static inline MR_TARGET_INLINE Sum_whole mr_products_whole(Sum_whole sum, Code_whole code, int x) {
  return mr_add_pairs(sum, code.w, x);
}

static inline MR_TARGET_INLINE int16 mr_sum_total_whole(Sum_whole sum, int16 initial) {
  return initial + mr_times(sum, 1);
}

typedef struct {
  int16 low, high;
} Code_split;
typedef struct {
  Shorts low, high;
} Sum_split;

static inline MR_TARGET_INLINE Code_split mr_code_of_split(int16 word) {
  Code_split out;
  out.low = word & (int16)(0x0f0f0f0f);
  out.high = word >> 4 & (int16)(0x0f0f0f0f);
  return out;
}

static inline MR_TARGET_INLINE Sum_split mr_sum_start_split(int16 initial) {
  Sum_split out;
  out.low = mr_zero_shorts();
  out.high = mr_zero_shorts();
  return out;
}

static inline MR_TARGET_INLINE Sum_split mr_products_split(Sum_split sum, Code_split code, int x) {
  sum.low = mr_add_pairs(sum.low, code.low, x);
  sum.high = mr_add_pairs(sum.high, code.high, x);
  return sum;
}

static inline MR_TARGET_INLINE int16 mr_sum_total_split(Sum_split sum, int16 initial) {
  return initial + mr_times(sum.low, 1) + mr_times(sum.high, 16);
}
#endif
