// out[c][r] = sum over k of weight[r][k] * x[c][k], x quantized, for CPUs. Arguments and numeric
// contract: integer_generic.cl.
//
// Lanes are the 16 rows of a panel: a word of codes is one operand of a dot product, a word of a
// column the other, the same for all lanes. A tile is P panels by C columns, whose sums and block
// sums stay in registers:
//
//   for each block:  sums = -OFFSET * (sum of the column's codes)
//                    8 words x P x C products                         int32, exact
//                    d (and m) of P panels from memory
//                    acc = fma(sums, d * s, acc)  (, fma(m, t, acc))  fp32
//
//   launch   local (1), groups (any number): group g takes units [g*U/G, (g+1)*U/G) of PANELS_WIDE
//            panels and walks all columns in tiles, weights from the first-level cache
//   defines  X_STRIDE, the words of a row of x, so that columns cost no address registers;
//            DOT, see dot.cl; TILE, the widest tile
// Columns are cut into equal tiles no wider than TILE, each rounded up to a width that was
// compiled; what the added columns give is dropped, and x has TILE readable rows after its last.
// Limit: memory up to about 4 columns; then dot products: of 8 + 3 vector operations a block and
// column (2 where not affine), 8 are products.

// Sixteen halves as they lie in memory, exactly; see exact_cpu.cl.
static inline MR_TARGET_INLINE float16 mr_scale16(__global const uchar* panel, uint at) {
#if SCALE_SIZE == 2
  const int16 bits = convert_int16(((__global const ushort16*)panel)[at]) << 16;
  return as_float16((bits >> 3) & (int16)(0x8fffe000)) * (float16)(0x1p112f);
#else
  return ((__global const float16*)panel)[at];
#endif
}

static inline MR_TARGET_INLINE int16 mr_codes(__global const uchar* panel, uint at) {
  return ((__global const int16*)(panel + SCALE_SPACE))[at];
}

#define HALVES (32 / SCALE_BLOCK)

// -OFFSET * the sum of x's codes over a half (or the whole) of a block.
static inline MR_TARGET_INLINE int16 mr_initial(__global const int* x, int half_index) {
#if OFFSET == 0
  return (int16)(0);
#elif HALVES == 1
  return (int16)(x[Q_OFFSET]) * (int16)(OFFSET / 8);
#else
  const int first = x[Q_OFFSET_HALF];
  return (int16)((half_index == 0 ? first : x[Q_OFFSET] - first) * (OFFSET / 8));
#endif
}

#define MR_EACH(i, n) _Pragma("unroll") for (int i = 0; i < (n); ++i)

#define MR_TILE(P, C)                                                                             \
  static MR_TARGET void mr_tile_##P##_##C(__global const uchar* weight, __global const int* x,    \
                                          __global float* out, __global const float* bias,        \
                                          uint out_stride, uint width, uint mode) {               \
    float16 acc[(P) * (C)];                                                                       \
    MR_EACH(i, (P) * (C)) acc[i] = (float16)(0.0f);                                               \
    for (uint b = 0; b < K_BLOCKS; ++b) {                                                         \
      MR_EACH(h, HALVES) {                                                                        \
        Sum sum[(P) * (C)];                                                                       \
        MR_EACH(c, C) MR_EACH(p, P)                                                               \
            sum[p * (C) + c] = mr_sum_start(mr_initial(x + c * X_STRIDE, h));                     \
        MR_EACH(i, WORDS / HALVES) {                                                              \
          int16 word[P];                                                                          \
          MR_EACH(p, P)                                                                           \
              word[p] = mr_codes(weight + p * PANEL_BYTES, b * WORDS + h * (WORDS / HALVES) + i); \
          MR_EACH(n, 8 / WORDS) {                                                                 \
            Code code[P];                                                                         \
            MR_EACH(p, P) code[p] = mr_code_of(MR_PART(word[p], n));                              \
            MR_EACH(c, C) {                                                                       \
              const int column = x[c * X_STRIDE + (h * (WORDS / HALVES) + i) * (8 / WORDS) + n];  \
              MR_EACH(p, P)                                                                       \
                  sum[p * (C) + c] = mr_products(sum[p * (C) + c], code[p], column);              \
            }                                                                                     \
          }                                                                                       \
        }                                                                                         \
        MR_EACH(p, P) {                                                                           \
          const float16 d = mr_scale16(weight + p * PANEL_BYTES, b * SCALES + h);                 \
          MR_EACH(c, C) {                                                                         \
            const float16 scale = d * (float16)(as_float(x[c * X_STRIDE + Q_SCALE]));             \
            const int16 total =                                                                   \
                mr_sum_total(sum[p * (C) + c], mr_initial(x + c * X_STRIDE, h));                  \
            acc[p * (C) + c] = fma(convert_float16(total), scale, acc[p * (C) + c]);              \
          }                                                                                       \
        }                                                                                         \
      }                                                                                           \
      if (AFFINE) MR_EACH(p, P) {                                                                 \
        const float16 m = mr_scale16(weight + p * PANEL_BYTES, b * SCALES + 1);                   \
        MR_EACH(c, C) acc[p * (C) + c] =                                                          \
            fma(m, (float16)(as_float(x[c * X_STRIDE + Q_SUM])), acc[p * (C) + c]);               \
      }                                                                                           \
      x += Q_WORDS;                                                                               \
    }                                                                                             \
    MR_EACH(c, C) {                                                                               \
      if (c < width) {                                                                            \
        MR_EACH(p, P) {                                                                           \
          __global float16* to = (__global float16*)(out + (size_t)c * out_stride + p * 16);      \
          float16 total = acc[p * (C) + c];                                                       \
          if ((mode & 2) != 0) total = total + *(__global const float16*)(bias + p * 16);         \
          if ((mode & 1) != 0) total = total + *to;                                               \
          *to = total;                                                                            \
        }                                                                                         \
      }                                                                                           \
    }                                                                                             \
  }

// Part n of a word: its low and high bits, or the whole.
#if CODES == 4
#define MR_PART(word, n) (((n) == 0 ? (word) : (word) >> 4) & (int16)(0x0f0f0f0f))
#else
#define MR_PART(word, n) (word)
#endif

MR_TILE(2, 1)
MR_TILE(2, 2)
MR_TILE(1, 1)
MR_TILE(1, 2)
MR_TILE(2, 4)
MR_TILE(1, 4)
#if TILE > 4
MR_TILE(2, 6)
MR_TILE(1, 6)
#endif
#if TILE > 6
MR_TILE(1, 8)
MR_TILE(1, 12)
#endif

#define MR_ARGS                                                                        \
  weight + (size_t)p * PANEL_BYTES, x + (size_t)c * X_STRIDE,                          \
      out + (size_t)c * out_stride + p * 16, bias + p * 16, out_stride, width, mode

__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void matmul(__global const uchar* weight, __global const int* x, __global float* out,
            __global const float* bias, uint panels, uint columns, uint out_stride, uint out_row,
            uint mode) {
  const uint g = (uint)get_group_id(0), groups = (uint)get_num_groups(0);
  const uint units = (panels + 1) / 2;
  const uint first = 2 * (uint)((ulong)units * g / groups);
  const uint last = min(panels, 2 * (uint)((ulong)units * (g + 1) / groups));
  const uint tiles = (columns + TILE - 1) / TILE;
  out += out_row;
  bias += out_row;
  for (uint t = 0; t < tiles; ++t) {
    const uint c = (uint)((ulong)columns * t / tiles);
    const uint width = (uint)((ulong)columns * (t + 1) / tiles) - c;
    uint p = first;
#if TILE <= 6
    for (; p + 2 <= last; p += 2) {
      if (width == 1) mr_tile_2_1(MR_ARGS);
      else if (width == 2) mr_tile_2_2(MR_ARGS);
      else if (width <= 4) mr_tile_2_4(MR_ARGS);
#if TILE > 4
      else mr_tile_2_6(MR_ARGS);
#endif
    }
#endif
    for (; p < last; ++p) {
      if (width == 1) mr_tile_1_1(MR_ARGS);
      else if (width == 2) mr_tile_1_2(MR_ARGS);
      else if (width <= 4) mr_tile_1_4(MR_ARGS);
#if TILE > 4
      else if (width <= 6) mr_tile_1_6(MR_ARGS);
#endif
#if TILE > 6
      else if (width <= 8) mr_tile_1_8(MR_ARGS);
      else mr_tile_1_12(MR_ARGS);
#endif
    }
  }
}
