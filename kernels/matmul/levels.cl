// The values of packed codes, 16 rows at a time: one byte of a lane is one column. A template, for
// each PRODUCT of a program (layout.cl).
#include "kv/vectors.cl"
#include "matmul/layout.cl"
#include "matmul/lookup.cl"
#include "matmul/target.cl"

#if SCALE_SIZE > 0
// A panel's levels.
static inline MR_TARGET_INLINE int16 MR_N(mr_line)(__global const uchar* panel) {
#if CODE_LEVELS
  return *(__global const int16*)panel;
#else
  return (int16)(0);
#endif
}

// Returns the values of columns 4g .. 4g+3 of a block; g is a constant after unrolling.
static inline MR_TARGET_INLINE int16 MR_N(mr_value4)(__global const uchar* panel, int16 line,
                                                     uint block, int g) {
  __global const int16* words = (__global const int16*)(panel + CODES_AT) + block * WORDS;
#define MR_WORD(i) words[i]
#if CODE_LEVELS
  return mr_levels(line, MR_LOW_CODES(int16, MR_WORD, g));
#elif CODES == 5 || CODES == 6
  return MR_LOW_CODES(int16, MR_WORD, g) | MR_HIGH_CODES(int16, MR_WORD, g);
#elif CODES == 8
  return words[g];
#else
  return MR_LOW_CODES(int16, MR_WORD, g);
#endif
#undef MR_WORD
}

// Returns scale i of a block of the 16 rows.
static inline MR_TARGET_INLINE float16 MR_N(mr_scale16)(__global const uchar* panel, uint block,
                                                        uint i) {
  const uint at = block * SCALES + i;
#if SCALE_SIZE == 1
  __global const ushort* halves =
      (__global const ushort*)(panel + HALVES_AT) + (block / 8 * (1 + AFFINE) + i / RUNS) * 16;
  return mr_half16(halves) * convert_float16(((__global const char16*)(panel + SCALES_AT))[at]);
#elif SCALE_SIZE == 2
  return mr_half16((__global const ushort*)(panel + SCALES_AT) + at * 16);
#else
  return ((__global const float16*)(panel + SCALES_AT))[at];
#endif
}
#endif
