// The values of packed codes, 16 rows at a time: one byte of a lane is one column. DOT (dot.cl)
// chooses the instruction that looks levels up; without it plain vectors do the work. Comes after
// layout.cl and target.cl, once for each product of a program.
#if CODE_LEVELS && !defined(MR_LEVELS_BEGUN)
#define MR_LEVELS_BEGUN
// Each byte of the result is line[code], where code, 0 to 15, is the same byte of `codes`, and
// `line` is a panel's line of levels (layout.cl), which holds them once for each 16 bytes that such
// an instruction works on.
#if DOT == 2 || DOT == 3
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
#endif

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
