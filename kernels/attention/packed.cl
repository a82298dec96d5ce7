// The products of a tile (tiles.cl) with keys and values that are stored as packed codes
// (kv/planes.cl). Codes are decoded in registers, where ROWS queries share
// them, and nothing is expanded in memory. integer.cl has the integer products of --math fast.
#include "attention/rows.cl"
#include "attention/units.cl"
#include "kv/codecs.cl"
#include "kv/layout.cl"
#include "kv/vectors.cl"

#if KEY_KIND != KV_PLAIN
// The number of quads whose planes fill whole words, and the bits of a code in the low plane.
#define KEY_SPAN (KEY_BITS == 8 ? 1 : KEY_BITS == 4 ? 2 : KEY_BITS % 2 == 0 ? 4 : 8)
#define KEY_LOW (KEY_BITS == 8 ? 8 : KEY_BITS >= 4 ? 4 : 2)
#endif

#if KEY_KIND != KV_PLAIN && !KEY_INTEGERS
// Adds queries times keys to s[page][row], which is 0 before, for PAGES_AT_ONCE pages from `first`
// on. Past the last page it computes the last page again, into places that nothing reads.
static inline void MR_Q(mr_dots)(const Unit* unit, const float* q, __global const uint* pages,
                                 uint first, uint count, float16* s) {
  __global const uchar* low[PAGES_AT_ONCE];
  __global const uchar* high[PAGES_AT_ONCE];
  __global const ushort* parameters[PAGES_AT_ONCE];
  _Pragma("unroll") for (uint n = 0; n < PAGES_AT_ONCE; ++n) {
    const uint page = pages[min(first + n, count - 1)];
    low[n] = unit->kv + mr_keys_at(page, unit->kv_head);
    high[n] = low[n] + 2 * HEAD_DIM * KEY_LOW;
    parameters[n] =
        (__global const ushort*)(unit->kv + mr_key_parameters_at(page, unit->kv_head));
    for (uint at = 0; at < VALUE_CODE_BYTES; at += 64) MR_PREFETCH(low[n] + KEY_CODE_BYTES + at);
  }
  for (uint g = 0; g < KEY_SETS; ++g) {
    float16 t[PAGES_AT_ONCE * ROWS];
    _Pragma("unroll") for (uint i = 0; i < PAGES_AT_ONCE * ROWS; ++i) t[i] = (float16)(0.0f);
    const float* channels = q + g * KEY_GROUP;
    for (uint d = 0; d < KEY_GROUP; d += 4 * KEY_SPAN, channels += 4 * KEY_SPAN) {
      _Pragma("unroll") for (uint c = 0; c < 4 * KEY_SPAN; ++c) {
        _Pragma("unroll") for (uint n = 0; n < PAGES_AT_ONCE; ++n) {
          const float16 k =
              mr_decode_key(mr_take_codes_key(low[n], high[n], c / 4, c % 4, 0));
          _Pragma("unroll") for (uint r = 0; r < ROWS; ++r) t[n * ROWS + r] =
              fma((float16)(channels[r * HEAD_DIM + c]), k, t[n * ROWS + r]);
        }
      }
      _Pragma("unroll") for (uint n = 0; n < PAGES_AT_ONCE; ++n) {
        low[n] += 8 * KEY_SPAN * KEY_LOW;
        high[n] += 8 * KEY_SPAN * (KEY_BITS - KEY_LOW);
      }
    }
    _Pragma("unroll") for (uint n = 0; n < PAGES_AT_ONCE; ++n) {
      const float16 scale = mr_half16(parameters[n] + g * KEY_PARAMETERS / KEY_SETS * 16);
#if KEY_KIND == KV_AFFINE
      const float16 bias = mr_half16(parameters[n] + (2 * g + 1) * 16);
      const float* sums = q + ROWS * HEAD_DIM + g;
      _Pragma("unroll") for (uint r = 0; r < ROWS; ++r) s[n * ROWS + r] =
          fma(t[n * ROWS + r], scale, fma((float16)(sums[r * KEY_SETS]), bias, s[n * ROWS + r]));
#else
      _Pragma("unroll") for (uint r = 0; r < ROWS; ++r)
          s[n * ROWS + r] = t[n * ROWS + r] * scale;
#endif
    }
  }
}
#endif

#if VALUE_KIND != KV_PLAIN
#define VALUE_LOW (VALUE_BITS == 8 ? 8 : VALUE_BITS >= 4 ? 4 : 2)
#define VALUE_HIGH (VALUE_BITS - VALUE_LOW)

// The planes of a page's values for channels from `block` on. Two blocks share the words of planes
// of one bit.
static inline ValuePlanes MR_Q(mr_value_planes)(const Unit* unit, uint page, uint block) {
  __global const uchar* values = unit->kv + mr_values_at(page, unit->kv_head);
  const ValuePlanes planes = {
      .low = values + block * 32 * VALUE_LOW,
      .high = values + 2 * HEAD_DIM * VALUE_LOW + block * VALUE_HIGH / 2 * 64,
      .skip = VALUE_HIGH == 1 && BLOCKS_AT_ONCE % 2 != 0 ? block % 2 * 4 : 0};
  return planes;
}

// Folds the scales of parameter set g, or the norms, into the weights: w = e * scale, and 0 past
// `count`. w may be e. Writes each row's sum of e * bias, or 0, to `begin`.
static inline void MR_Q(mr_weigh)(const Unit* unit, const float* e, __global const uint* pages,
                                  const Ahead* ahead, uint count, uint g, float* w,
                                  float* begin) {
  const int16 lane = (int16)(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
  float16 sums[ROWS];
  for (uint r = 0; r < ROWS; ++r) sums[r] = (float16)(0.0f);
  for (uint first = 0; first < count; first += PAGE_TOKENS) {
    __global const ushort* parameters =
        (__global const ushort*)(unit->kv +
                                 mr_value_parameters_at(pages[first / PAGE_TOKENS],
                                                        unit->kv_head));
#if VALUE_INTEGERS
    if (g == 0) mr_expect_keys(ahead, unit->kv, first / PAGE_TOKENS, 0, KEY_CODE_BYTES / 2);
#endif
    const int16 past = lane >= (int16)((int)(count - first));
    const float16 scale = select(
        mr_half16(parameters + g * VALUE_PARAMETERS / VALUE_SETS * 16), (float16)(0.0f), past);
#if VALUE_KIND == KV_AFFINE
    const float16 bias =
        select(mr_half16(parameters + (2 * g + 1) * 16), (float16)(0.0f), past);
#endif
    for (uint r = 0; r < ROWS; ++r) {
      const float16 x = *(const float16*)(e + r * E_STRIDE + first);
      *(float16*)(w + r * E_STRIDE + first) = x * scale;
#if VALUE_KIND == KV_AFFINE
      sums[r] = fma(x, bias, sums[r]);
#endif
    }
  }
  for (uint r = 0; r < ROWS; ++r) begin[r] = mr_sum16(sums[r]);
}
#endif

#if VALUE_KIND != KV_PLAIN && !VALUE_INTEGERS
// Computes a[row][channel block] for BLOCKS_AT_ONCE blocks from `block` on, over `count` positions,
// rounded up to whole pages: past the last position weights are 0.
static inline void MR_Q(mr_sum_values)(const Unit* unit, const float* w, const float* begin,
                                       __global const uint* pages, const Ahead* ahead, uint count,
                                       uint block, float16* out) {
  float16 a[ROWS * BLOCKS_AT_ONCE];
  _Pragma("unroll") for (uint b = 0; b < BLOCKS_AT_ONCE; ++b) {
    _Pragma("unroll") for (uint r = 0; r < ROWS; ++r) a[b * ROWS + r] = (float16)(begin[r]);
  }
  for (uint p = 0; p * PAGE_TOKENS < count; ++p, w += PAGE_TOKENS) {
    const ValuePlanes at = MR_Q(mr_value_planes)(unit, pages[p], block);
    if (block == 0) {
      __global const uchar* keys =
          unit->kv + mr_keys_at(ahead->pages[min(p, ahead->count - 1)], ahead->kv_head);
      for (uint line = 0; line < KEY_CODE_BYTES; line += 64) MR_PREFETCH(keys + line);
    }
    _Pragma("unroll") for (uint t = 0; t < PAGE_TOKENS; ++t) {
      _Pragma("unroll") for (uint b = 0; b < BLOCKS_AT_ONCE; ++b) {
        const float16 v = mr_decode_value(
            mr_take_codes_value(at.low, at.high, 4 * b + t / 4, t % 4, at.skip));
        _Pragma("unroll") for (uint r = 0; r < ROWS; ++r)
            a[b * ROWS + r] = fma((float16)(w[r * E_STRIDE + t]), v, a[b * ROWS + r]);
      }
    }
  }
  _Pragma("unroll") for (uint b = 0; b < BLOCKS_AT_ONCE; ++b) {
    _Pragma("unroll") for (uint r = 0; r < ROWS; ++r)
        out[r * CHANNEL_BLOCKS + block + b] = a[b * ROWS + r];
  }
}
#endif
