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
//   launch   local (1), groups (any number): group g takes pairs [g*U/G, (g+1)*U/G) of panels and
//            walks all columns in tiles, CHUNK_PANELS at a time
//   defines  X_STRIDE, the words of a row of x, so that columns cost no address registers;
//            DOT, see dot.cl; TILE, the widest tile;
//            FRONT_COLUMNS, the most that have their norm in front: 4
// Columns are cut into equal tiles no wider than TILE, each rounded up to a width that was
// compiled; what the added columns give is dropped, and x has TILE readable rows after its last.
// Tiles of up to 6 columns take two panels where there are 32 registers, so that a word of x is
// loaded once for both.
// Limit: memory up to about 4 columns; then dot products: of 8 + 3 vector operations a block and
// column (2 where not affine), 8 are products.

static inline MR_TARGET_INLINE float16 mr_scale16(__global const uchar* panel, uint at) {
#if SCALE_SIZE == 2
  return mr_half16((__global const ushort*)panel + at * 16);
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

MR_TILE(1, 1)
MR_TILE(1, 2)
MR_TILE(1, 4)
#if TILE >= 6
MR_TILE(1, 6)
#endif
#if TILE >= 8
MR_TILE(1, 8)
#endif
#if TILE >= 10
MR_TILE(1, 10)
#endif
#if TILE >= 12
MR_TILE(1, 12)
#endif
// Two panels where there are registers for twice the sums.
#if DOT >= 2
MR_TILE(2, 1)
MR_TILE(2, 2)
MR_TILE(2, 4)
#define PAIR_COLUMNS 4
#if TILE >= 6
MR_TILE(2, 6)
#undef PAIR_COLUMNS
#define PAIR_COLUMNS 6
#endif
#else
#define PAIR_COLUMNS 0
#endif

// One or two panels by up to TILE columns.
static inline void mr_panels(__global const uchar* weight, __global const int* x,
                             __global float* out, __global const float* bias, uint out_stride,
                             uint panels, uint width, uint mode) {
#define MR_ARGS weight, x, out, bias, out_stride, width, mode
#if PAIR_COLUMNS > 0
  if (panels == 2 && width <= PAIR_COLUMNS) {
    switch (width) {
      case 1: mr_tile_2_1(MR_ARGS); return;
      case 2: mr_tile_2_2(MR_ARGS); return;
      case 3:
      case 4: mr_tile_2_4(MR_ARGS); return;
#if PAIR_COLUMNS > 4
      default: mr_tile_2_6(MR_ARGS); return;
#endif
    }
  }
#endif
  for (uint p = 0; p < panels; ++p) {
    switch ((width + 1) / 2) {
      case 1:
        if (width == 1) {
          mr_tile_1_1(MR_ARGS);
        } else {
          mr_tile_1_2(MR_ARGS);
        }
        break;
      case 2: mr_tile_1_4(MR_ARGS); break;
#if TILE >= 6
      case 3: mr_tile_1_6(MR_ARGS); break;
#endif
#if TILE >= 8
      case 4: mr_tile_1_8(MR_ARGS); break;
#endif
#if TILE >= 10
      case 5: mr_tile_1_10(MR_ARGS); break;
#endif
#if TILE >= 12
      case 6: mr_tile_1_12(MR_ARGS); break;
#endif
    }
    weight += PANEL_BYTES;
    out += 16;
    bias += 16;
  }
#undef MR_ARGS
}

// Where tile t of `tiles` begins.
static inline uint mr_cut(uint columns, uint t, uint tiles) {
  return t == tiles ? columns : (uint)((ulong)columns * t / tiles);
}

#define MR_TILES ((columns + TILE - 1) / TILE)

// Panels that one walk over all columns takes: what stays in the second-level cache meanwhile.
#define CHUNK_BYTES (128 * 1024)
#define CHUNK_PANELS (PANEL_BYTES * 8 > CHUNK_BYTES ? 4 : CHUNK_BYTES / PANEL_BYTES / 4 * 4)

// A group's pairs of panels by all columns. With a constant number of tiles and a bound on columns
// the compiler leaves out the widths that cannot be.
static inline void mr_product(__global const uchar* weight, __global const int* x,
                              __global float* out, __global const float* bias, uint panels,
                              uint columns, uint tiles, uint out_stride, uint mode) {
  const uint g = (uint)get_group_id(0), groups = (uint)get_num_groups(0);
  const uint pairs = (panels + 1) / 2;
  const uint first = 2 * mr_cut(pairs, g, groups);
  const uint last = min(panels, 2 * mr_cut(pairs, g + 1, groups));
  for (uint chunk = first; chunk < last; chunk += CHUNK_PANELS) {
    const uint end = min(last, chunk + CHUNK_PANELS);
    for (uint t = 0; t < tiles; ++t) {
      const uint c = mr_cut(columns, t, tiles), width = mr_cut(columns, t + 1, tiles) - c;
      for (uint p = chunk; p < end; p += 2) {
        mr_panels(weight + (size_t)p * PANEL_BYTES, x + (size_t)c * X_STRIDE,
                  out + (size_t)c * out_stride + p * 16, bias + p * 16, out_stride,
                  min(end - p, 2u), width, mode);
      }
    }
  }
}

// The same for gate and up, 32 channels of both at a time, into codes of SiLU(gate) * up.
static inline void mr_gate_up(__global const uchar* weight, __global const int* x,
                              __global int* out, __global const float* bias,
                              __global float* scratch, uint panels, uint columns, uint tiles,
                              uint out_stride, uint mode) {
  const uint g = (uint)get_group_id(0), groups = (uint)get_num_groups(0);
  const uint blocks = panels / 4;
  const uint first = mr_cut(blocks, g, groups), last = mr_cut(blocks, g + 1, groups);
  for (uint chunk = first; chunk < last; chunk += CHUNK_PANELS / 4) {
    const uint end = min(last, chunk + CHUNK_PANELS / 4);
    for (uint t = 0; t < tiles; ++t) {
      const uint c = mr_cut(columns, t, tiles), width = mr_cut(columns, t + 1, tiles) - c;
      for (uint b = chunk; b < end; ++b) {
        for (uint i = 0; i < 2; ++i) {  // gate, then up
          const uint p = 2 * b + i * 2 * blocks;
          mr_panels(weight + (size_t)p * PANEL_BYTES, x + (size_t)c * X_STRIDE, scratch + i * 32,
                    bias + p * 16, 64, 2, width, mode);
        }
        for (uint j = 0; j < width; ++j) {
          __global const float16* sums = (__global const float16*)(scratch + j * 64);
          mr_quantize(mr_silu_mul(sums[0], sums[2]), mr_silu_mul(sums[1], sums[3]),
                      out + (size_t)(c + j) * out_stride + b * Q_WORDS);
        }
      }
    }
  }
}

// Each group's own memory: TILE x 64 floats; after those of all groups, FRONT_COLUMNS rows each.
static inline __global float* mr_own_sums(__global int* scratch) {
  return (__global float*)scratch + get_group_id(0) * (TILE * 64);
}
static inline __global int* mr_own_rows(__global int* scratch) {
  return scratch + get_num_groups(0) * (TILE * 64) + get_group_id(0) * (FRONT_COLUMNS * X_STRIDE);
}

// The norm of up to FRONT_COLUMNS rows, which every group of a narrow step does for itself: cheaper
// than one more launch.
static inline __global int* mr_norm_front(__global const float* rows, __global const float* norm,
                                          __global int* scratch, uint columns, uint row_stride,
                                          float inverse_width, float epsilon) {
  for (uint c = 0; c < columns; ++c) {
    mr_norm_quantize(rows + (size_t)c * row_stride, norm, scratch + c * X_STRIDE, K_BLOCKS,
                     inverse_width, epsilon);
  }
  return scratch;
}

#define MR_KERNEL __kernel __attribute__((reqd_work_group_size(1, 1, 1))) void

MR_KERNEL matmul(__global const uchar* weight, __global const int* x, __global float* out,
                 __global const float* bias, uint panels, uint columns, uint out_stride,
                 uint out_row, uint mode) {
  mr_product(weight, x, out + out_row, bias + out_row, panels, columns, MR_TILES, out_stride, mode);
}

// With x = quantized root-mean-square norm of rows (quantize/norm.cl); at most FRONT_COLUMNS.
MR_KERNEL norm_matmul(__global const uchar* weight, __global const float* rows,
                      __global const float* norm, __global int* scratch, __global float* out,
                      __global const float* bias, uint panels, uint columns, uint row_stride,
                      uint out_stride, uint out_row, uint mode, float inverse_width,
                      float epsilon) {
  columns = min(columns, (uint)FRONT_COLUMNS);
  __global const int* x = mr_norm_front(rows, norm, mr_own_rows(scratch), columns, row_stride,
                                        inverse_width, epsilon);
  mr_product(weight, x, out + out_row, bias + out_row, panels, columns, 1, out_stride, mode);
}

// Gate and up, panels/2 each, to quantized rows of SiLU(gate) * up.
MR_KERNEL gate_up(__global const uchar* weight, __global const int* x, __global int* scratch,
                  __global int* out, __global const float* bias, uint panels, uint columns,
                  uint out_stride, uint mode) {
  mr_gate_up(weight, x, out, bias, mr_own_sums(scratch), panels, columns, MR_TILES, out_stride,
             mode);
}

MR_KERNEL norm_gate_up(__global const uchar* weight, __global const float* rows,
                       __global const float* norm, __global int* scratch, __global int* out,
                       __global const float* bias, uint panels, uint columns, uint row_stride,
                       uint out_stride, uint mode, float inverse_width, float epsilon) {
  columns = min(columns, (uint)FRONT_COLUMNS);
  __global const int* x = mr_norm_front(rows, norm, mr_own_rows(scratch), columns, row_stride,
                                        inverse_width, epsilon);
  mr_gate_up(weight, x, out, bias, mr_own_sums(scratch), panels, columns, 1, out_stride, mode);
}
