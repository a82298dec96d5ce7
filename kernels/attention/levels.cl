// Codes of one side, for which KEYS stands (kv/side.cl), as bytes: affine codes themselves, or
// signed levels in units of the side's STEP. Codes of 8 bits are such bytes as they stand.
//
// mr_level_words(high, low, nibbles): of eight codes, one a nibble, two words of bytes. Affine
// codes are in the order of quads, see below. Levels are in the order of nibbles, of sixteen those
// of at least 0, with `low` the magnitudes of the others, and zeros in place of what the other has:
// one permutation of bytes looks up four of eight bytes; where a nibble's top bit is set, it copies
// the byte's sign, which is 0 for magnitudes.
//
// mr_nibbles(...): of two words of planes (kv/planes.cl) a quad each, as such nibbles: member i of
// the first in the low nibble of byte i, of the second in the high one. Words of codes of four bits
// are such nibbles.
#include "attention/bytes.cl"
#include "kv/codecs.cl"
#include "kv/side.cl"

#if BITS <= 4
#if KIND == KV_AFFINE
static inline void MR_S(mr_level_words)(uint* high, uint* low, uint nibbles) {
  high[0] = nibbles & 0x0f0f0f0fu;
  high[1] = nibbles >> 4 & 0x0f0f0f0fu;
}
#else
#if BITS == 4
#define LEVEL_BYTE(code) \
  ((uint)((code) < 8 ? 128 - MR_S(mr_bytes)[code] : MR_S(mr_bytes)[code] - 128))
#else
#define LEVEL_BYTE(code) ((uint)(MR_S(mr_bytes)[code] - 128) & 255)
#endif
static inline uint MR_S(mr_levels_from)(uint first) {
  return LEVEL_BYTE(first) | LEVEL_BYTE(first + 1) << 8 | LEVEL_BYTE(first + 2) << 16 |
         LEVEL_BYTE(first + 3) << 24;
}
#undef LEVEL_BYTE

static inline void MR_S(mr_level_words)(uint* high, uint* low, uint nibbles) {
  const uint first = MR_S(mr_levels_from)(0), second = MR_S(mr_levels_from)(4);
#if BITS == 4
  const uint third = MR_S(mr_levels_from)(8), fourth = MR_S(mr_levels_from)(12);
  const uint other = nibbles ^ 0x88888888u;
  low[0] = mr_permute(first, second, nibbles);
  low[1] = mr_permute(first, second, nibbles >> 16);
  high[0] = mr_permute(third, fourth, other);
  high[1] = mr_permute(third, fourth, other >> 16);
#else
  high[0] = mr_permute(first, second, nibbles);
  high[1] = mr_permute(first, second, nibbles >> 16);
#endif
}
#endif

#if BITS < 4
// Of the word `first` quad t, 0 or 1, and of `second` quad 2 + t; their bits of the high plane are
// `at` and `second_at` of each byte of the words `high` and `second_high`.
static inline uint MR_S(mr_nibbles)(uint first, uint second, uint high, uint second_high, uint t,
                                    uint at, uint second_at) {
  const uint low = mr_chosen(0x0f0f0f0fu, first, second) >> (2 * t);
#if BITS == 2
  return low & 0x33333333u;
#else
  const uint more = mr_chosen(0x0f0f0f0fu, mr_rotated_left(high, 2 - at),
                              mr_rotated_left(second_high, 6 - second_at));
  return mr_chosen(0x33333333u, low, more) & 0x77777777u;
#endif
}
#endif
#endif
