// Reads quads of one side's packed codes as bytes for dot products (dots.cl), where attention
// computes in integers. KEYS tells the side (side.cl).
//
// A byte is the code itself in affine codecs, and LEVEL_BYTES[code] in rotated ones.
#include "kv/codecs.cl"
#include "kv/dots.cl"
#include "kv/side.cl"

#if INTEGERS
#define EACH_BYTE(x) ((int)((uint)(x) * 0x01010101u))

// Reads quad j; the planes of quad 0 begin at `low`, and at bit `skip` of each byte of `high`.
static inline MR_TARGET_INLINE int16 MR_S(mr_quad)(__global const uchar* low,
                                                   __global const uchar* high, uint j,
                                                   uint skip) {
  const int16 x = as_int16(*(__global const uint16*)(low + j / (8 / LOW) * 64) >>
                           (uint16)(LOW * (j % (8 / LOW))));
#if HIGH > 0
  const uint16 word = *(__global const uint16*)(high + j / (8 / HIGH) * 64) >> skip;
  const uint at = HIGH * (j % (8 / HIGH));
#endif
#if HIGH == 0
  const int16 code = x & (int16)(EACH_BYTE(CODE_TOP));
#elif KIND == KV_ROTATED && LOW == 4
  const int16 code = x & (int16)(EACH_BYTE(15));
#else
  const uint16 y = at >= LOW ? word >> (at - LOW) : word << (LOW - at);
  const int16 code = (x & (int16)(EACH_BYTE((1 << LOW) - 1))) |
                     (as_int16(y) & (int16)(EACH_BYTE(CODE_TOP & ~((1 << LOW) - 1))));
#endif
#if KIND != KV_ROTATED
  return code;
#elif BITS <= 4
  return mr_lookup_bytes(MR_S(mr_bytes), code);
#else
  const int16 first = mr_choose_bytes(as_int16(word), EACH_BYTE(1 << at),
                                      mr_lookup_bytes(MR_S(mr_bytes), code),
                                      mr_lookup_bytes(MR_S(mr_bytes) + 64, code));
#if BITS == 5
  return first;
#else
  const int16 second = mr_choose_bytes(as_int16(word), EACH_BYTE(1 << at),
                                       mr_lookup_bytes(MR_S(mr_bytes) + 128, code),
                                       mr_lookup_bytes(MR_S(mr_bytes) + 192, code));
  return mr_choose_bytes(as_int16(word), EACH_BYTE(2 << at), first, second);
#endif
#endif
}
#endif
