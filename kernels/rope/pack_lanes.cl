// Encodes one side of a head, for which KEYS stands (kv/side.cl), with LANES work-items, at least
// 16, by the arithmetic of kv/codec.cl in the same order, or stores it plain.
//
// mr_pack_lanes(x, codes, sums, codes_to, parameters_to, square, slot, lane): all work-items of the
// group must call. Rotated codecs want H (signs * x), and the sum of squares of x.
#include "kv/codecs.cl"
#include "kv/side.cl"
#include "rope/lanes.cl"
#include "rope/turn.cl"

#if KIND == KV_ROTATED
// The level of a code; codes of few bits are few numbers for the compiler to choose from.
static inline uint MR_S(mr_level_code)(float z) {
#if BITS <= 4
  uint code = 0;
  MR_EACH(i, CODE_TOP) code += MR_S(mr_thresholds)[i] < z;
#else
  uint code = 0;
  for (uint step = 1u << (BITS - 1); step > 0; step >>= 1) {
    if (MR_S(mr_thresholds)[code + step - 1] < z) code += step;
  }
#endif
  return code;
}
#endif

#if KIND != KV_PLAIN
// Computes codes, and writes parameters.
MR_GROUP_INLINE void MR_S(mr_encode_lanes)(__local float* x, __local uint* codes,
                                           __local float* sums, __global half* parameters,
                                           float square, uint slot, uint lane) {
#if KIND == KV_ROTATED
  const int is_finite = square <= FLT_MAX, is_zero = square <= 1e-37f;
  const float inverse = is_finite && !is_zero ? mr_rsqrt(square) : 0.0f;
  for (uint d = lane; d < HEAD_DIM; d += LANES) {
    x[d] = x[d] * inverse;
    codes[d] = MR_S(mr_level_code)(x[d]);
  }
  barrier(CLK_LOCAL_MEM_FENCE);
  float own = 0.0f;
  for (uint d = lane; lane < 16 && d < HEAD_DIM; d += 16) {
    own = fma(x[d], MR_S(mr_levels)[codes[d]], own);
  }
  const float dot = mr_lane_sum(sums, own, lane) * (1.0f / HEAD_DIM);
  const float norm = is_zero ? 0.0f : mr_as_half(square * inverse * mr_recip(dot));
  if (lane == 0) vstore_half_rte(is_finite ? norm : NAN, slot, parameters);
#else
  // Sixteen work-items a group of channels, as many groups at a time as there are.
  const uint column = lane % 16;
  __local float* own = sums + lane / 16 * 48;
  for (uint first = 0; first < HEAD_DIM / CODE_GROUP; first += LANES / 16) {
    const uint set = first + lane / 16;
    const int exists = set < HEAD_DIM / CODE_GROUP;
    __local float* of = x + (exists ? set : 0) * CODE_GROUP;
    float low = of[column], high = low;
    int odd = low != low;
    for (uint d = column + 16; d < CODE_GROUP; d += 16) {
      low = of[d] < low ? of[d] : low;
      high = of[d] > high ? of[d] : high;
      odd |= of[d] != of[d];
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    own[column] = -low;
    own[16 + column] = high;
    own[32 + column] = odd ? 1.0f : 0.0f;
    barrier(CLK_LOCAL_MEM_FENCE);
    const float least = -mr_max16(vload16(0, own));
    const float scale = mr_as_half((mr_max16(vload16(1, own)) - least) * (1.0f / CODE_TOP));
    const float bias = mr_as_half(least);
    const float inverse = scale > 0 ? mr_recip(scale) : 0.0f;
    const int is_odd = mr_max16(vload16(2, own)) > 0.0f;
    if (exists) {
      for (uint d = column; d < CODE_GROUP; d += 16) {
        const float code = rint((of[d] - bias) * inverse);
        codes[set * CODE_GROUP + d] = (uint)(int)clamp(code, 0.0f, (float)CODE_TOP);
      }
      if (column == 0) {
        vstore_half_rte(is_odd ? NAN : scale, 2 * set * PAGE_TOKENS + slot, parameters);
        vstore_half_rte(is_odd ? NAN : bias, (2 * set + 1) * PAGE_TOKENS + slot, parameters);
      }
    }
  }
#endif
  barrier(CLK_LOCAL_MEM_FENCE);
}

// Writes bits `first` to first + p - 1 of the codes to a plane.
MR_GROUP_INLINE void MR_S(mr_put_lanes)(__global uint* plane, __local const uint* codes, uint first,
                                        uint p, uint slot, uint lane) {
  const uint mask = (1u << p) - 1;
#if KEYS
  for (uint word = lane; word < HEAD_DIM * p / 32; word += LANES) {
    uint bits = 0;
    for (uint i = 0; i < 32 / p; ++i) {
      bits |= (codes[word * (32 / p) + i] >> first & mask) << (8 * (i % 4) + p * (i / 4));
    }
    plane[word * 16 + slot] = bits;
  }
#else
  for (uint d = lane; d < HEAD_DIM; d += LANES) {
    const uint j = 4 * (d / 16) + slot / 4, bit = 8 * (slot % 4) + p * (j % (8 / p));
    __global uint* to = plane + j / (8 / p) * 16 + d % 16;
    atomic_xor(to, (*to ^ codes[d] >> first << bit) & mask << bit);
  }
#endif
}
#endif

MR_GROUP_INLINE void MR_S(mr_pack_lanes)(__local float* x, __local uint* codes,
                                         __local float* sums, __global uchar* codes_to,
                                         __global uchar* parameters_to, float square, uint slot,
                                         uint lane) {
#if KIND == KV_PLAIN
  __global MR_JOINED(MR_NUMBER, BITS)* to = (__global MR_JOINED(MR_NUMBER, BITS)*)codes_to;
  for (uint d = lane; d < HEAD_DIM; d += LANES) {
    MR_JOINED(mr_store, BITS)(x[d], to, KEYS ? d * PAGE_TOKENS + slot : slot * HEAD_DIM + d);
  }
#else
  MR_S(mr_encode_lanes)(x, codes, sums, (__global half*)parameters_to, square, slot, lane);
  __global uint* plane = (__global uint*)codes_to;
  MR_S(mr_put_lanes)(plane, codes, 0, LOW, slot, lane);
  if (HIGH > 0) {
    MR_S(mr_put_lanes)(plane + HEAD_DIM / 2 * LOW, codes, LOW, HIGH, slot, lane);
  }
#endif
}
