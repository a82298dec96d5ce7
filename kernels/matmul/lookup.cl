#pragma once
// Looks levels up: each byte of the result is line[code], where code, 0 to 15, is the same byte of
// `codes`, and `line` is a panel's line of levels (layout.cl), which holds them once for each 16
// bytes that such an instruction works on. DOT (dot.cl) chooses the instruction; with 0 plain
// vectors do the work.
#include "matmul/target.cl"

#if DOT >= 2
typedef char MrLevels __attribute__((ext_vector_type(64)));

static inline MR_TARGET_INLINE int16 mr_levels(int16 line, int16 codes) {
  return __builtin_astype(__builtin_ia32_pshufb512(__builtin_astype(line, MrLevels),
                                                   __builtin_astype(codes, MrLevels)),
                          int16);
}
#elif DOT == 1
typedef char MrLevels __attribute__((ext_vector_type(32)));

static inline MR_TARGET_INLINE int16 mr_levels(int16 line, int16 codes) {
  const MrLevels levels = __builtin_astype(line.lo, MrLevels);
  int16 out;
  out.lo = __builtin_astype(
      __builtin_ia32_pshufb256(levels, __builtin_astype(codes.lo, MrLevels)), int8);
  out.hi = __builtin_astype(
      __builtin_ia32_pshufb256(levels, __builtin_astype(codes.hi, MrLevels)), int8);
  return out;
}
#else
typedef char MrLevels __attribute__((ext_vector_type(64)));

// It is not inlined, because tiles with many copies of it compile for twice as long.
static __attribute__((noinline)) int16 mr_levels(int16 line, int16 codes) {
  const MrLevels levels = __builtin_astype(line, MrLevels);
  const MrLevels code = __builtin_astype(codes, MrLevels);
  MrLevels out = (MrLevels)(0);
  _Pragma("unroll") for (int i = 0; i < 16; ++i)
      out |= (code == (MrLevels)((char)(i))) & (MrLevels)(levels[i]);
  return __builtin_astype(out, int16);
}
#endif
