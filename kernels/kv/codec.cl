// Encodes and decodes packed codes of one side, for which KEYS stands (side.cl). README.md defines
// the codecs.
//
// Encoding is fp32 arithmetic in one written order:
//   affine   low, high of a group; scale = half((high - low) * (1 / top)), bias = half(low);
//            code = clamp(rint((x - bias) * mr_recip(scale)), 0, top); a scale of 0 gives codes 0
//   rotated  n2 = lane i adds x*x of channels i, i + 16, ... by fma; mr_sum16
//            z = hadamard(signs * x) * mr_rsqrt(n2); index = number of thresholds below z
//            dot = the same sum of z * level;
//            r = half(n2 * mr_rsqrt(n2) * mr_recip(dot / HEAD_DIM)); 0 where n2 is about 0
// NaN stays NaN: NaN in a group makes the group's scale and bias NaN, and an n2 that is not finite
// makes r NaN.
// Limit: vector operations, for one token at a time. Affine codes search the low and high of each
// group; rotated ones take the transform and a search by halves among the thresholds.
#include "common/math.cl"
#include "common/prelude.cl"
#include "kv/layout.cl"
#include "kv/planes.cl"
#include "kv/side.cl"

#if KIND == KV_ROTATED
__constant float MR_S(mr_levels)[] __attribute__((aligned(64))) = {CODEBOOK_LEVELS};
__constant float MR_S(mr_thresholds)[] __attribute__((aligned(64))) = {THRESHOLDS};
__constant uint MR_S(mr_signs)[] = {SIGNS};
#if INTEGERS
__constant uchar MR_S(mr_bytes)[] __attribute__((aligned(64))) = {LEVEL_BYTES};
#endif

// Looks up table[index]. Bits of the index above BITS are ignored.
static inline float16 MR_S(mr_lookup)(__constant const float* table, int16 index) {
#if defined(__AVX512F__) && BITS <= 4
  return __builtin_ia32_permvarsf512(*(__constant const float16*)table, index);
#elif defined(__AVX512F__) && BITS <= 6
  __constant const float16* t = (__constant const float16*)table;
  const float16 low = __builtin_ia32_vpermi2varps512(t[0], index, t[1]);
#if BITS == 5
  return low;
#else
  const float16 high = __builtin_ia32_vpermi2varps512(t[2], index, t[3]);
  return select(low, high, index << 26);
#endif
#elif defined(__AVX512F__)
  return __builtin_ia32_gathersiv16sf((float16)(0.0f), (const void*)(size_t)table, index & CODE_TOP,
                                      (ushort)(0xffff), 4);
#else
  float16 out;
  float* to = (float*)&out;
  const int* at = (const int*)&index;
  for (uint l = 0; l < 16; ++l) to[l] = table[at[l] & CODE_TOP];
  return out;
#endif
}
#endif

#if KIND != KV_PLAIN
// Returns codes in lanes, with other bits above them: member i of quad j, where the planes of quad
// 0 begin at `low`, and at bit `skip` of each byte of `high`.
static inline int16 MR_S(mr_take_codes)(__global const uchar* low, __global const uchar* high,
                                        uint j, uint i, uint skip) {
  const uint16 x = *(__global const uint16*)(low + j / (8 / LOW) * 64) >>
                   (8 * i + LOW * (j % (8 / LOW)));
#if HIGH == 0
  return as_int16(x);
#else
  const uint at = 8 * i + HIGH * (j % (8 / HIGH));
  const uint16 word = *(__global const uint16*)(high + j / (8 / HIGH) * 64) >> skip;
  const uint16 y = at >= LOW ? word >> (at - LOW) : word << (LOW - at);
  const uint16 mask = (uint16)((1 << LOW) - 1);
#if defined(__AVX512F__)
  // Selects x where the mask is set, else y, in one instruction; the compiler would use two.
  return __builtin_ia32_pternlogd512_mask(as_int16(x), as_int16(y), as_int16(mask), 0xe4,
                                          (ushort)(0xffff));
#else
  return as_int16((x & mask) | (y & ~mask));
#endif
#endif
}

// Returns the number that a code represents, without scale, bias or norm.
static inline float16 MR_S(mr_decode)(int16 code) {
#if KIND == KV_ROTATED
  return MR_S(mr_lookup)(MR_S(mr_levels), code);
#else
  return convert_float16(code & CODE_TOP);
#endif
}

// Encodes x, which it overwrites, as codes in the order of channels and parameters that fit halves.
static inline void MR_S(mr_encode)(float16* x, int16* codes, float* parameters) {
#if KIND == KV_AFFINE
  const uint blocks = CODE_GROUP / 16;
  for (uint g = 0; g < HEAD_DIM / CODE_GROUP; ++g, x += blocks, codes += blocks) {
    float16 low = x[0], high = x[0];
    int16 odd = x[0] != x[0];  // set for NaN, which is neither low nor high
    for (uint c = 1; c < blocks; ++c) {
      low = select(low, x[c], x[c] < low);
      high = select(high, x[c], x[c] > high);
      odd |= x[c] != x[c];
    }
    const float least = -mr_max16(-low);
    const float scale = mr_as_half((mr_max16(high) - least) * (1.0f / CODE_TOP));
    const float bias = mr_as_half(least);
    const float inverse = scale > 0 ? mr_recip(scale) : 0.0f;
    for (uint c = 0; c < blocks; ++c) {
      const float16 code = rint((x[c] - (float16)(bias)) * (float16)(inverse));
      codes[c] = convert_int16(clamp(code, (float16)(0.0f), (float16)(CODE_TOP)));
    }
    const int is_odd = any(odd);
    parameters[2 * g] = is_odd ? NAN : scale;
    parameters[2 * g + 1] = is_odd ? NAN : bias;
  }
#else
  float16 squares = (float16)(0.0f), products = (float16)(0.0f);
  for (uint c = 0; c < CHANNEL_BLOCKS; ++c) squares = fma(x[c], x[c], squares);
  const float square = mr_sum16(squares);
  const int is_finite = square <= FLT_MAX, is_zero = square <= 1e-37f;
  const float inverse = is_finite && !is_zero ? mr_rsqrt(square) : 0.0f;
  mr_flip(x, MR_S(mr_signs));
  mr_hadamard(x);
  for (uint c = 0; c < CHANNEL_BLOCKS; ++c) {
    const float16 z = x[c] * (float16)(inverse);
    int16 index = (int16)(0);
    for (int step = 1 << (BITS - 1); step > 0; step >>= 1) {
      const float16 cut = MR_S(mr_lookup)(MR_S(mr_thresholds), index + (int16)(step - 1));
      index = select(index, index + (int16)(step), cut < z);
    }
    codes[c] = index;
    products = fma(z, MR_S(mr_lookup)(MR_S(mr_levels), index), products);
  }
  const float dot = mr_sum16(products) * (1.0f / HEAD_DIM);
  const float norm = is_zero ? 0.0f : mr_as_half(square * inverse * mr_recip(dot));
  parameters[0] = is_finite ? norm : NAN;
#endif
}

// Encodes x, which it overwrites, and writes codes and parameters to their places in a page.
static inline void MR_S(mr_pack)(float16* x, __global uchar* codes_to,
                                 __global uchar* parameters_to, uint slot) {
  int16 codes[CHANNEL_BLOCKS];
  float parameters[PARAMETERS];
  MR_S(mr_encode)(x, codes, parameters);
  __global uint* plane = (__global uint*)codes_to;
  MR_S(mr_put)(plane, codes, slot, LOW, HIGH);
  for (uint i = 0; i < PARAMETERS; ++i) {
    vstore_half_rte(parameters[i], i * PAGE_TOKENS + slot, (__global half*)parameters_to);
  }
}
#endif
