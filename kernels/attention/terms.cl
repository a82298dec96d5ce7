#pragma once
// What one position adds to the sums of generic.cl, which has the contract: its score, and its
// value times its weight.
#include "common/math.cl"
#include "common/prelude.cl"
#include "kv/codecs.cl"
#include "kv/layout.cl"
#include "kv/planes.cl"

#define KEY_SETS (HEAD_DIM / KEY_GROUP)
#define VALUE_SETS (HEAD_DIM / VALUE_GROUP)
#define KEY_LOW (KEY_BITS == 8 ? 8 : KEY_BITS >= 4 ? 4 : 2)
#define VALUE_LOW (VALUE_BITS == 8 ? 8 : VALUE_BITS >= 4 ? 4 : 2)

// Read a plain number of 16 or of 32 bits.
static inline float mr_number_16(__global const uchar* from, uint at) {
  return vload_half(at, (__global const half*)from);
}
static inline float mr_number_32(__global const uchar* from, uint at) {
  return ((__global const float*)from)[at];
}

static inline float mr_parameter(__global const uchar* parameters, uint index, uint slot) {
  return mr_number_16(parameters, index * PAGE_TOKENS + slot);
}

#if KEY_INTEGERS || VALUE_INTEGERS
static inline float mr_short_inverse(int top) {
  return as_float(top) < 1e-37f ? 0.0f : 32767.0f * mr_recip(as_float(top));
}
static inline float mr_short_unit(int top) {
  return as_float(top) < 1e-37f ? 0.0f : as_float(top) * MR_SHORT_UNIT;
}
static inline int mr_short_code(float x, float inverse) {
  const int code = as_int(fma(x, inverse, 12582912.0f)) - 0x4b400000;
  return clamp(code, -32767, 32767);
}
// The magnitude as an integer, whose order is that of magnitudes; NaN is above all.
static inline int mr_size(float x) {
  return as_int(x) & 0x7fffffff;
}
#endif

// The score of the key at `slot`. q is the query times scale, rotated if keys are; `sums` has the
// sums of its groups, for affine keys. In integers, q holds the query's 16-bit numbers, and `unit`
// is the value of 1 in them.
MR_GROUP_INLINE float mr_score(__local const float* q, __local const float* sums, float unit,
                               __global const uchar* kv, uint page, uint kv_head, uint slot) {
  __global const uchar* keys = kv + mr_keys_at(page, kv_head);
#if KEY_KIND == KV_PLAIN
  float s = 0.0f;
  _Pragma("unroll 16") for (uint d = 0; d < HEAD_DIM; ++d) {
    s = fma(q[d], MR_KEY(mr_number)(keys, d * PAGE_TOKENS + slot), s);
  }
  return s;
#else
  __global const uchar* parameters = kv + mr_key_parameters_at(page, kv_head);
  float s = 0.0f;
  for (uint g = 0; g < KEY_SETS; ++g) {
#if KEY_INTEGERS
    int total = 0;
#else
    float t = 0.0f;
#endif
    _Pragma("unroll 8") for (uint d = g * KEY_GROUP; d < (g + 1) * KEY_GROUP; ++d) {
      const uint code = mr_code_at(keys, KEY_LOW, KEY_BITS - KEY_LOW, d / 4, d % 4, slot);
#if KEY_INTEGERS && KEY_KIND == KV_ROTATED
      total += as_int(q[d]) * ((int)mr_bytes_key[code / 16 * 64 + code % 16] - 128);
#elif KEY_INTEGERS
      total += as_int(q[d]) * (int)code;
#elif KEY_KIND == KV_ROTATED
      t = fma(q[d], mr_levels_key[code], t);
#else
      t = fma(q[d], (float)code, t);
#endif
    }
#if KEY_INTEGERS
    const float t = (float)total * unit;
#endif
#if KEY_KIND == KV_ROTATED
    s = t * mr_parameter(parameters, 0, slot);
#else
    s = fma(t, mr_parameter(parameters, 2 * g, slot),
            fma(sums[g], mr_parameter(parameters, 2 * g + 1, slot), s));
#endif
  }
  return s;
#endif
}

#if VALUE_INTEGERS
#define SUM_OF_VALUES int
// The integer product that channel d of the value at `slot` adds to the sum. `inverse` is
// mr_short_inverse of its group's largest weight.
static inline int mr_value_product(float e, float inverse, __global const uchar* kv, uint page,
                                   uint kv_head, uint slot, uint d) {
  const float scale =
      mr_parameter(kv + mr_value_parameters_at(page, kv_head),
                   VALUE_KIND == KV_ROTATED ? 0 : d / VALUE_GROUP * 2, slot);
  const int code = (int)mr_code_at(kv + mr_values_at(page, kv_head), VALUE_LOW,
                                   VALUE_BITS - VALUE_LOW, d / 16 * 4 + slot / 4, slot % 4, d % 16);
#if VALUE_KIND == KV_ROTATED
  const int byte = (int)mr_bytes_value[code / 16 * 64 + code % 16] - 128;
#else
  const int byte = code;
#endif
  return mr_short_code(e * scale, inverse) * byte;
}
#else
#define SUM_OF_VALUES float
// The two factors of channel d of the value at `slot`: the weight, and the channel's number.
static inline float2 mr_value(float e, __global const uchar* kv, uint page, uint kv_head, uint slot,
                              uint d) {
  __global const uchar* values = kv + mr_values_at(page, kv_head);
#if VALUE_KIND == KV_PLAIN
  return (float2)(e, MR_VALUE(mr_number)(values, mr_value_number(slot, d)));
#else
  __global const uchar* parameters = kv + mr_value_parameters_at(page, kv_head);
  const uint code = mr_code_at(values, VALUE_LOW, VALUE_BITS - VALUE_LOW, d / 16 * 4 + slot / 4,
                               slot % 4, d % 16);
#if VALUE_KIND == KV_ROTATED
  return (float2)(e * mr_parameter(parameters, 0, slot), mr_levels_value[code]);
#else
  return (float2)(e * mr_parameter(parameters, d / VALUE_GROUP * 2, slot), (float)code);
#endif
#endif
}
#endif

// Returns `sum` with the value of one position added.
static inline SUM_OF_VALUES mr_add_value(SUM_OF_VALUES sum, float e, float inverse,
                                         __global const uchar* kv, uint page, uint kv_head,
                                         uint slot, uint d) {
#if VALUE_INTEGERS
  return sum + mr_value_product(e, inverse, kv, page, kv_head, slot, d);
#else
  const float2 term = mr_value(e, kv, page, kv_head, slot, d);
  return fma(term.x, term.y, sum);
#endif
}

// Returns `sum` with channel d of the values of `count` positions added, in order.
MR_GROUP_INLINE SUM_OF_VALUES mr_add_values(SUM_OF_VALUES sum, __local const float* e,
                                            float inverse, __global const uchar* kv,
                                            __local const uint* pages, uint kv_head, uint count,
                                            uint d) {
  for (uint first = 0; first < count; first += PAGE_TOKENS) {
    const uint page = pages[first / PAGE_TOKENS];
    if (count - first >= PAGE_TOKENS) {
      _Pragma("unroll") for (uint slot = 0; slot < PAGE_TOKENS; ++slot) {
        sum = mr_add_value(sum, e[first + slot], inverse, kv, page, kv_head, slot, d);
      }
    } else {
      for (uint slot = 0; slot < count - first; ++slot) {
        sum = mr_add_value(sum, e[first + slot], inverse, kv, page, kv_head, slot, d);
      }
    }
  }
  return sum;
}

