// The products of a tile (tiles.cl) with keys and values that are stored as plain numbers, which
// are halves or floats.
#include "attention/rows.cl"
#include "attention/units.cl"
#include "kv/layout.cl"
#include "kv/vectors.cl"

#if KEY_KIND == KV_PLAIN
// Adds queries times keys to s[page][row], for PAGES_AT_ONCE pages from `first` on. Past the last
// page it computes the last page again, into places that nothing reads.
static inline void MR_Q(mr_dots)(const Unit* unit, const float* q, __global const uint* pages,
                                 uint first, uint count, float16* s) {
  __global const MR_KEY(MrNumber)* keys[PAGES_AT_ONCE];
  _Pragma("unroll") for (uint n = 0; n < PAGES_AT_ONCE; ++n) {
    const uint page = pages[min(first + n, count - 1)];
    keys[n] = (__global const MR_KEY(MrNumber)*)(unit->kv + mr_keys_at(page, unit->kv_head));
  }
  _Pragma("unroll 2") for (size_t d = 0; d < HEAD_DIM; ++d) {
    _Pragma("unroll") for (uint n = 0; n < PAGES_AT_ONCE; ++n) {
      const float16 k = MR_KEY(mr_floats)(keys[n] + d * PAGE_TOKENS);
      if (!VALUES_IN_KEYS && d * VALUE_BITS % 32 == 0) {
        MR_PREFETCH((__global const uchar*)keys[n] + KEY_CODE_BYTES + d * VALUE_BITS * 2);
      }
      _Pragma("unroll") for (uint r = 0; r < ROWS; ++r)
          s[n * ROWS + r] = fma((float16)(q[r * HEAD_DIM + d]), k, s[n * ROWS + r]);
    }
  }
}
#endif

#if VALUE_KIND == KV_PLAIN && !VALUES_IN_KEYS
// Computes a[row][channel block] for BLOCKS_AT_ONCE blocks from `block` on, over `count` positions.
static inline void MR_Q(mr_values)(const Unit* unit, const float* e, __global const uint* pages,
                                   const Ahead* ahead, uint count, uint block, float16* out) {
  float16 a[ROWS * BLOCKS_AT_ONCE];
  _Pragma("unroll") for (uint i = 0; i < ROWS * BLOCKS_AT_ONCE; ++i) a[i] = (float16)(0.0f);
  const uint whole = count / PAGE_TOKENS;
  // Whole pages have a loop of their own: its fixed length keeps the sums in registers.
  for (uint p = 0; p < whole; ++p) {
    __global const MR_VALUE(MrNumber)* values =
        (__global const MR_VALUE(MrNumber)*)(unit->kv + mr_values_at(pages[p], unit->kv_head)) +
        block * 16;
    __global const uchar* keys =
        unit->kv + mr_keys_at(ahead->pages[min(p, ahead->count - 1)], ahead->kv_head);
    _Pragma("unroll 4") for (uint j = 0; j < PAGE_TOKENS; ++j, values += HEAD_DIM, ++e) {
      if (block == 0) {
        _Pragma("unroll") for (uint at = 0; at < KEY_CODE_BYTES / 16; at += 64)
            MR_PREFETCH(keys + j * (KEY_CODE_BYTES / 16) + at);
      }
      _Pragma("unroll") for (uint b = 0; b < BLOCKS_AT_ONCE; ++b) {
        const float16 v = MR_VALUE(mr_floats)(values + b * 16);
        _Pragma("unroll") for (uint r = 0; r < ROWS; ++r)
            a[b * ROWS + r] = fma((float16)(e[r * E_STRIDE]), v, a[b * ROWS + r]);
      }
    }
  }
  if (count % PAGE_TOKENS != 0) {
    __global const MR_VALUE(MrNumber)* values =
        (__global const MR_VALUE(MrNumber)*)(unit->kv +
                                             mr_values_at(pages[whole], unit->kv_head)) +
        block * 16;
    for (uint j = whole * PAGE_TOKENS; j < count; ++j, values += HEAD_DIM, ++e) {
      _Pragma("unroll") for (uint b = 0; b < BLOCKS_AT_ONCE; ++b) {
        const float16 v = MR_VALUE(mr_floats)(values + b * 16);
        _Pragma("unroll") for (uint r = 0; r < ROWS; ++r)
            a[b * ROWS + r] = fma((float16)(e[r * E_STRIDE]), v, a[b * ROWS + r]);
      }
    }
  }
  _Pragma("unroll") for (uint b = 0; b < BLOCKS_AT_ONCE; ++b) {
    _Pragma("unroll") for (uint r = 0; r < ROWS; ++r)
        out[r * VALUE_BLOCKS + block + b] = a[b * ROWS + r];
  }
}
#endif
