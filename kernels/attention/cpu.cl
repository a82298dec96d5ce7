// Causal attention over pages for CPUs. Arguments and numeric contract: generic.cl.
//
// A group of one work-item takes one item (up to QUERIES consecutive tokens of one sequence) and
// one KV head, so that each key and value vector is loaded once for ROWS = QUERIES * GROUP queries:
//
//   scores  lanes are the 16 positions of a page: s[row] += q[d][row] * keys[d][16 positions]
//   values  lanes are 16 channels:                a[row] += e[row][j] * values[j][16 channels]
//
//   step    `items` gives two words an item: first token, number of tokens (1 to QUERIES)
//   launch  local (1, 1), groups (items, KV_HEADS)
//   defines QUERIES: 1 for decoding rows, more for prefill; ROWS_AT_ONCE sums are kept in registers
// Rows past an item's tokens repeat its last token and are dropped. A key after a row's position
// takes part with e = 0 exactly, which changes no sum; nothing after the item's last position is
// read but the rest of its page, whose scores are replaced.
// Limit: memory for decoding rows, fp32 multiply-adds for prefill.
#define ROWS (QUERIES * GROUP)
#define CHANNEL_BLOCKS (HEAD_DIM / 16)
// How many pages, and how many blocks of channels, are walked together so that about 12 sums run.
#define PAGES_AT_ONCE (ROWS >= 8 ? 1 : ROWS >= 4 ? 2 : ROWS >= 2 ? 4 : 8)
#if ROWS >= 8
#define BLOCKS_AT_ONCE 1
#elif CHANNEL_BLOCKS % 4 == 0 && ROWS <= 4
#define BLOCKS_AT_ONCE 4
#elif CHANNEL_BLOCKS % 2 == 0
#define BLOCKS_AT_ONCE 2
#else
#define BLOCKS_AT_ONCE 1
#endif

// Sixteen halves, exactly; see mr_half16 in matmul/cpu.cl.
static inline float16 mr_half16(__global const ushort* p) {
  const int16 bits = convert_int16(*(__global const ushort16*)p) << 16;
  return as_float16((bits >> 3) & (int16)(0x8fffe000)) * (float16)(0x1p112f);
}

// Scores of N pages from `page` on, for all rows.
#define MR_SCORES(N)                                                                             \
  static inline void mr_scores_##N(const float* q, __global const ushort* kv,                    \
                                   __global const uint* table, uint kv_head, uint page,          \
                                   float* e) {                                                   \
    __global const ushort* keys[N];                                                              \
    float16 s[(N) * ROWS];                                                                       \
    _Pragma("unroll") for (int n = 0; n < (N); ++n)                                              \
        keys[n] = kv + mr_keys_at(table[page + n], kv_head);                                     \
    _Pragma("unroll") for (int i = 0; i < (N) * ROWS; ++i) s[i] = (float16)(0.0f);               \
    for (uint d = 0; d < HEAD_DIM; ++d) {                                                        \
      _Pragma("unroll") for (int n = 0; n < (N); ++n) {                                          \
        const float16 k = mr_half16(keys[n] + d * PAGE_TOKENS);                                  \
        _Pragma("unroll") for (int r = 0; r < ROWS; ++r)                                         \
            s[n * ROWS + r] = fma((float16)(q[d * ROWS + r]), k, s[n * ROWS + r]);               \
      }                                                                                          \
    }                                                                                            \
    _Pragma("unroll") for (int n = 0; n < (N); ++n)                                              \
        _Pragma("unroll") for (int r = 0; r < ROWS; ++r)                                         \
            vstore16(s[n * ROWS + r], 0,                                                         \
                     e + r * SEGMENT_TOKENS + (page + n) % (SEGMENT_TOKENS / PAGE_TOKENS) * 16); \
  }
MR_SCORES(1)
#if ROWS < 2
MR_SCORES(8)
#define MR_SCORES_MANY mr_scores_8
#elif ROWS < 4
MR_SCORES(4)
#define MR_SCORES_MANY mr_scores_4
#elif ROWS < 8
MR_SCORES(2)
#define MR_SCORES_MANY mr_scores_2
#else
#define MR_SCORES_MANY mr_scores_1
#endif

// Turns one row's scores into e, 0 from `visible` on up to `count`; returns (m, l).
static inline float2 mr_softmax(float* e, uint visible, uint count) {
  const int16 lane = (int16)(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
  float16 top = (float16)(-INFINITY);
  for (uint j = 0; j < visible; j += 16) {
    const int16 hidden = lane + (int16)((int)j) >= (int16)((int)visible);
    const float16 s = select(vload16(0, e + j), (float16)(-INFINITY), hidden);
    vstore16(s, 0, e + j);
    top = fmax(top, s);
  }
  const float m = mr_max16(top);
  float16 sum = (float16)(0.0f);
  for (uint j = 0; j < count; j += 16) {
    float16 x = (float16)(0.0f);
    if (j < visible) x = mr_exp16(vload16(0, e + j) - (float16)(m));
    vstore16(x, 0, e + j);
    sum = sum + x;
  }
  return (float2)(m, mr_sum16(sum));
}

__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void attention(__global const float* qkv, __global const ushort* kv, __global const uint* step,
               __global float* out, uint positions, uint tables, uint items, uint qkv_stride,
               uint out_stride, float scale) {
  const uint item = items + 2 * (uint)get_group_id(0), kv_head = (uint)get_group_id(1);
  const uint token = step[item], tokens = step[item + 1];
  const uint position = step[positions + token];
  __global const uint* table = step + step[tables + token];
  float q[HEAD_DIM * ROWS], e[ROWS * SEGMENT_TOKENS];
  float16 total[ROWS * CHANNEL_BLOCKS];
  float top[ROWS], mass[ROWS], f[ROWS], g[ROWS];
  for (uint r = 0; r < ROWS; ++r) {
    const uint t = min(r / GROUP, tokens - 1);
    __global const float* from =
        qkv + (size_t)(token + t) * qkv_stride + (kv_head * GROUP + r % GROUP) * HEAD_DIM;
    for (uint d = 0; d < HEAD_DIM; ++d) q[d * ROWS + r] = from[d] * scale;
  }
  const uint end = position + tokens;
  for (uint start = 0; start < end; start += SEGMENT_TOKENS) {
    const uint count = min(end - start, (uint)SEGMENT_TOKENS);
    uint page = start / PAGE_TOKENS;
    const uint last_page = (start + count + PAGE_TOKENS - 1) / PAGE_TOKENS;
    for (; page + PAGES_AT_ONCE <= last_page; page += PAGES_AT_ONCE) {
      MR_SCORES_MANY(q, kv, table, kv_head, page, e);
    }
    for (; page < last_page; ++page) mr_scores_1(q, kv, table, kv_head, page, e);
    for (uint r = 0; r < ROWS; ++r) {
      const uint limit = position + min(r / GROUP, tokens - 1) + 1;  // keys that the row may see
      const uint visible = limit > start ? min(limit - start, count) : 0;
      const float2 ml = mr_softmax(e + r * SEGMENT_TOKENS, visible, count);
      f[r] = 1.0f;
      g[r] = 0.0f;
      if (start == 0) {
        top[r] = ml.x;
        mass[r] = ml.y;
      } else if (visible > 0) {
        const float merged = fmax(top[r], ml.x);
        f[r] = mr_exp(top[r] - merged);
        g[r] = mr_exp(ml.x - merged);
        mass[r] = fma(mass[r], f[r], ml.y * g[r]);
        top[r] = merged;
      }
    }
    for (uint c = 0; c < CHANNEL_BLOCKS; c += BLOCKS_AT_ONCE) {
      float16 a[ROWS * BLOCKS_AT_ONCE];
      _Pragma("unroll") for (int i = 0; i < ROWS * BLOCKS_AT_ONCE; ++i) a[i] = (float16)(0.0f);
      for (uint base = 0; base < count; base += PAGE_TOKENS) {
        __global const ushort* values =
            kv + mr_values_at(table[(start + base) / PAGE_TOKENS], kv_head) + c * 16;
        const uint stop = min(base + PAGE_TOKENS, count);
        for (uint j = base; j < stop; ++j, values += HEAD_DIM) {
          _Pragma("unroll") for (int b = 0; b < BLOCKS_AT_ONCE; ++b) {
            const float16 v = mr_half16(values + b * 16);
            _Pragma("unroll") for (int r = 0; r < ROWS; ++r) {
              const int i = b * ROWS + r;
              a[i] = fma((float16)(e[r * SEGMENT_TOKENS + j]), v, a[i]);
            }
          }
        }
      }
      for (uint b = 0; b < BLOCKS_AT_ONCE; ++b) {
        for (uint r = 0; r < ROWS; ++r) {
          const uint i = r * CHANNEL_BLOCKS + c + b;
          total[i] = start == 0 ? a[b * ROWS + r]
                                : fma(total[i], (float16)(f[r]), a[b * ROWS + r] * g[r]);
        }
      }
    }
  }
  for (uint r = 0; r < tokens * GROUP; ++r) {
    __global float* to = out + (size_t)(token + r / GROUP) * out_stride +
                         (kv_head * GROUP + r % GROUP) * HEAD_DIM;
    const float16 inverse = (float16)(mr_recip(mass[r]));
    for (uint c = 0; c < CHANNEL_BLOCKS; ++c) {
      vstore16(total[r * CHANNEL_BLOCKS + c] * inverse, c, to);
    }
  }
}
