// The products of a tile with keys and values that are stored as packed codes, in integers, for
// --math fast. Contract: generic.cl.
//
//   queries  words [ROWS][HEAD_DIM / 2], two numbers of 16 bits each in the order of kv/dots.cl;
//            then floats, the unit of each row [ROWS]; then, for affine keys, the unit times the
//            sum of each group's numbers [ROWS][KEY_SETS]; for rotated keys ints, -128 * the sum of
//            the numbers [ROWS]
//   weights  words [ROWS][WEIGHT_WORDS] in the same order
#include "attention/rows.cl"
#include "attention/units.cl"
#include "kv/layout.cl"
#include "kv/quads.cl"
#include "kv/vectors.cl"
#include "matmul/target.cl"
#include "quantize/block.cl"

#if KEY_INTEGERS
#define QUERY_UNITS(q) ((q) + ROWS * HEAD_DIM / 2)
#define QUERY_SUMS(q) (QUERY_UNITS(q) + ROWS)

// Writes the words, unit and sums of one row's query, which is already scaled and rotated.
static inline void MR_Q(mr_pack_query)(const float* row, uint r, float* q) {
  int16 size = (int16)(0);
  for (uint d = 0; d < HEAD_DIM; d += 16) size = max(size, mr_size16(mr_take16(row + d)));
  const float top = as_float(mr_largest16(size));
  const bool none = top < 1e-37f;
  const float inverse = none ? 0.0f : 32767.0f * mr_recip(top);
  const float unit = none ? 0.0f : top * MR_SHORT_UNIT;
  short16* words = (short16*)(q + r * HEAD_DIM / 2);
  for (uint g = 0; g < KEY_SETS; ++g) {
    int16 sum = (int16)(0);
    for (uint d = g * KEY_GROUP; d < (g + 1) * KEY_GROUP; d += 16) {
      const int16 codes = mr_short_codes(mr_take16(row + d), inverse);
      words[d / 16] = mr_in_pairs(codes);
      sum += codes;
    }
#if KEY_KIND == KV_AFFINE
    QUERY_SUMS(q)[r * KEY_SETS + g] = unit * (float)mr_add16(sum);
#else
    QUERY_SUMS(q)[r] = as_float(-128 * mr_add16(sum));
#endif
  }
#if KEY_KIND == KV_AFFINE
  QUERY_UNITS(q)[r] = unit;
#else
  QUERY_UNITS(q)[r] = unit * KEY_STEP;
#endif
}

// Does what mr_dots of packed.cl does.
static inline MR_TARGET_INLINE void MR_Q(mr_dots)(const Unit* unit, const float* q,
                                                  __global const uint* pages, uint first,
                                                  uint count, float16* s) {
  __global const uchar* keys[PAGES_AT_ONCE];
  __global const ushort* parameters[PAGES_AT_ONCE];
  _Pragma("unroll") for (uint n = 0; n < PAGES_AT_ONCE; ++n) {
    const uint page = pages[min(first + n, count - 1)];
    keys[n] = unit->kv + mr_keys_at(page, unit->kv_head);
    parameters[n] =
        (__global const ushort*)(unit->kv + mr_key_parameters_at(page, unit->kv_head));
    for (uint at = 0; at < 32 * VALUE_PARAMETERS; at += 64) {
      MR_PREFETCH((__global const uchar*)parameters[n] + 32 * KEY_PARAMETERS + at);
    }
  }
  const int* words = (const int*)q;
  const float* units = QUERY_UNITS(q);
  const float* sums = QUERY_SUMS(q);
  for (uint g = 0; g < KEY_SETS; ++g) {
    int16 t[PAGES_AT_ONCE * ROWS];
    _Pragma("unroll") for (uint n = 0; n < PAGES_AT_ONCE; ++n) {
      _Pragma("unroll") for (uint r = 0; r < ROWS; ++r) t[n * ROWS + r] =
          (int16)(KEY_KIND == KV_ROTATED ? as_int(sums[r]) : 0);
    }
    const size_t end = (g + 1) * KEY_GROUP;
    for (size_t d = g * KEY_GROUP; d < end; d += 4 * KEY_SPAN, words += 2 * KEY_SPAN) {
      const size_t low = 2 * d * KEY_LOW;
      const size_t high = 2 * HEAD_DIM * KEY_LOW + 2 * d * (KEY_BITS - KEY_LOW);
      const size_t values = KEY_CODE_BYTES + 2 * d * VALUE_BITS;
      _Pragma("unroll") for (uint n = 0; n < PAGES_AT_ONCE; ++n) {
        // Prefetches a few lines of values at a time: the core would wait for a burst of them.
        _Pragma("unroll") for (uint at = 0; at < 8 * KEY_SPAN * VALUE_BITS; at += 64)
            MR_PREFETCH(keys[n] + values + at);
      }
      _Pragma("unroll") for (uint j = 0; j < KEY_SPAN; ++j) {
        _Pragma("unroll") for (uint n = 0; n < PAGES_AT_ONCE; ++n) {
          const int16 quad = mr_quad_key(keys[n] + low, keys[n] + high, j, 0);
          const int16 even = mr_even_bytes(quad), odd = mr_odd_bytes(quad);
          _Pragma("unroll") for (uint r = 0; r < ROWS; ++r) {
            const int* x = words + r * HEAD_DIM / 2 + 2 * j;
            t[n * ROWS + r] = mr_add_pairs_of(t[n * ROWS + r], even, x[0]);
            t[n * ROWS + r] = mr_add_pairs_of(t[n * ROWS + r], odd, x[1]);
          }
        }
      }
    }
    _Pragma("unroll") for (uint n = 0; n < PAGES_AT_ONCE; ++n) {
      const float16 scale = mr_half16(parameters[n] + g * KEY_PARAMETERS / KEY_SETS * 16);
#if KEY_KIND == KV_AFFINE
      const float16 bias = mr_half16(parameters[n] + (2 * g + 1) * 16);
      _Pragma("unroll") for (uint r = 0; r < ROWS; ++r) s[n * ROWS + r] =
          fma(convert_float16(t[n * ROWS + r]) * (float16)(units[r]), scale,
              fma((float16)(sums[r * KEY_SETS + g]), bias, s[n * ROWS + r]));
#else
      _Pragma("unroll") for (uint r = 0; r < ROWS; ++r) s[n * ROWS + r] =
          convert_float16(t[n * ROWS + r]) * (float16)(units[r]) * scale;
#endif
    }
  }
}
#endif

#if VALUE_INTEGERS
#define WEIGHT_WORDS (SEGMENT_TOKENS / 2)

// Writes the weights of whole pages as words, each row's unit, and the start of its integer sums.
static inline void MR_Q(mr_pack_weights)(const float* w, uint count, int* words, float* units,
                                         int* begin) {
  const uint end = (count + PAGE_TOKENS - 1) / PAGE_TOKENS * PAGE_TOKENS;
  for (uint r = 0; r < ROWS; ++r, w += E_STRIDE, words += WEIGHT_WORDS) {
    int16 size = (int16)(0), sum = (int16)(0);
    for (uint j = 0; j < end; j += 16) size = max(size, mr_size16(mr_take16(w + j)));
    const float top = as_float(mr_largest16(size));
    const bool none = top < 1e-37f;
    const float inverse = none ? 0.0f : 32767.0f * mr_recip(top);
    units[r] = none ? 0.0f : top * MR_SHORT_UNIT;
    for (uint j = 0; j < end; j += 16) {
      const int16 codes = mr_short_codes(mr_take16(w + j), inverse);
      *(short16*)(words + j / 2) = mr_in_pairs(codes);
      sum += codes;
    }
#if VALUE_KIND == KV_AFFINE
    begin[r] = 0;
#else
    begin[r] = -128 * mr_add16(sum);
    units[r] = units[r] * VALUE_STEP;
#endif
  }
}

// Does what mr_sum_values of packed.cl does. `first` starts the integer sums; affine values also
// use `begin`, in floats.
static MR_TARGET void MR_Q(mr_sum_values)(const Unit* unit, const int* words, const float* units,
                                          const int* first, const float* begin,
                                          __global const uint* pages, const Ahead* ahead,
                                          uint count, uint block, float16* out) {
  int16 a[ROWS * BLOCKS_AT_ONCE];
  _Pragma("unroll") for (uint b = 0; b < BLOCKS_AT_ONCE; ++b) {
    _Pragma("unroll") for (uint r = 0; r < ROWS; ++r) a[b * ROWS + r] = (int16)(first[r]);
  }
  for (uint p = 0; p * PAGE_TOKENS < count; ++p, words += PAGE_TOKENS / 2) {
    const ValuePlanes at = MR_Q(mr_value_planes)(unit, pages[p], block);
    _Pragma("unroll") for (uint t = 0; t < PAGE_TOKENS / 4; ++t) {
      if (block == 0) {
        const uint from = KEY_CODE_BYTES / 2 + t * (KEY_CODE_BYTES / 8);
        mr_expect_keys(ahead, unit->kv, p, from, from + KEY_CODE_BYTES / 8);
      }
      _Pragma("unroll") for (uint b = 0; b < BLOCKS_AT_ONCE; ++b) {
        const int16 quad = mr_quad_value(at.low, at.high, 4 * b + t, at.skip);
        const int16 even = mr_even_bytes(quad), odd = mr_odd_bytes(quad);
        _Pragma("unroll") for (uint r = 0; r < ROWS; ++r) {
          const int* x = words + r * WEIGHT_WORDS + 2 * t;
          a[b * ROWS + r] = mr_add_pairs_of(a[b * ROWS + r], even, x[0]);
          a[b * ROWS + r] = mr_add_pairs_of(a[b * ROWS + r], odd, x[1]);
        }
      }
    }
  }
  _Pragma("unroll") for (uint r = 0; r < ROWS; ++r) {
    _Pragma("unroll") for (uint b = 0; b < BLOCKS_AT_ONCE; ++b) {
      const float16 sum = convert_float16(a[b * ROWS + r]);
#if VALUE_KIND == KV_AFFINE
      out[r * CHANNEL_BLOCKS + block + b] = fma(sum, (float16)(units[r]), (float16)(begin[r]));
#else
      out[r * CHANNEL_BLOCKS + block + b] = sum * (float16)(units[r]);
#endif
    }
  }
}
#endif
