// Codes of one side, for which KEYS stands (kv/side.cl), as operand b.
//
// mr_operand(words, planes, four, t, at): of the 16 codes of four quads (kv/planes.cl), from quad
// 4 * four on, in lane `at` of the planes, the four of lanes 4g + t, as the numbers that they
// represent, of rotated codecs in units of the side's STEP. They are pair t and pair t + 4 in the
// order of CODE_ORDER (code_blocks.cl).
#include "attention/bytes.cl"
#include "kv/codecs.cl"
#include "kv/side.cl"

#if KIND != KV_PLAIN && BITS != 5 && BITS != 6 && !(KIND == KV_ROTATED && BITS == 8)
// The bytes of codes `first` to first + 3: codes; levels plus 128; or, of 16 levels, magnitudes,
// whose sign bit is 0, as mr_permute needs for the codes above 7.
#if KIND == KV_AFFINE
#define CODE_BYTE(code) ((uint)(code))
#elif BITS == 4
#define CODE_BYTE(code) \
  ((uint)((code) < 8 ? 128 - MR_S(mr_bytes)[code] : MR_S(mr_bytes)[code] - 128))
#else
#define CODE_BYTE(code) ((uint)(MR_S(mr_bytes)[code]))
#endif
static inline uint MR_S(mr_bytes_from)(uint first) {
  return CODE_BYTE(first) | CODE_BYTE(first + 1) << 8 | CODE_BYTE(first + 2) << 16 |
         CODE_BYTE(first + 3) << 24;
}
#undef CODE_BYTE

MR_GROUP_INLINE void MR_S(mr_operand)(uint* words, __local const uint* planes, uint four, uint t,
                                      uint at) {
#if BITS == 8
  mr_pairs(words, planes[(4 * four + t) * 16 + at], 0x64006400);
#elif BITS == 4
  const uint select = planes[(2 * four + t / 2) * 16 + at] >> (16 * (t % 2));
  // Zero for the codes of the other half.
  const uint low = mr_permute(MR_S(mr_bytes_from)(0), MR_S(mr_bytes_from)(4), select);
  const uint high =
      mr_permute(MR_S(mr_bytes_from)(8), MR_S(mr_bytes_from)(12), select ^ 0x8888);
#if KIND == KV_AFFINE
  mr_pairs(words, low | high, 0x64006400);
#else
  words[0] = mr_less_halves(mr_permute(high, MR_THOUSANDS, 0x4140),
                            mr_permute(low, MR_THOUSANDS, 0x4140));
  words[1] = mr_less_halves(mr_permute(high, MR_THOUSANDS, 0x4342),
                            mr_permute(low, MR_THOUSANDS, 0x4342));
#endif
#else
  uint code = planes[four * 16 + at] >> (2 * t) & 0x03030303;
#if HIGH > 0
  const uint more = planes[HEAD_DIM + four / 2 * 16 + at] >> (four % 2 * 4 + t);
  code |= (more & 0x01010101) << 2;
#endif
  const uint select = mr_permute(code | code >> 4, 0, 0x4420);
  const uint bytes = mr_permute(MR_S(mr_bytes_from)(0), MR_S(mr_bytes_from)(4), select);
  mr_pairs(words, bytes, KIND == KV_AFFINE ? 0x64006400 : 0x64806480);
#endif
}
#endif
