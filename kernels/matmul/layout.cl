// The layout of a weight matrix [rows, K] in memory: panels of 16 rows, for every type of tensor.
//
//   panel p holds rows 16p .. 16p+15; missing rows and columns are zero; K is padded to 32s.
//
//   plain values   F32: [K][16] float; F16, BF16: [K][16] ushort
//   codes          scales [K/32][S][16] half or float, then words [K/32][W][16] uint
//
//     W = 4, CODES 4: byte z of word i holds column 8i+z in its low bits, column 8i+4+z in its high
//     W = 8, CODES 8: byte z of word i holds column 4i+z
//     S = 1: d            weight = d * (code - OFFSET)           SCALE_BLOCK 32
//     S = 2: d, d'        the same; d' for columns 16..31        SCALE_BLOCK 16
//     S = 2: d, m         weight = fma(d, code, m)               AFFINE 1, OFFSET 0
//
//   So a word of 16 rows is one vector, and each of its lanes is four neighbouring columns, the
//   form that integer dot products take. Scales and codes begin at multiples of 64 bytes. A weight
//   is exactly the value that the file defines: products of scale and code are exact in fp32, so
//   one fma rounds once, as a multiply and an add do.
//
// Defines: CODES 0 (F32), 1 (F16), 2 (BF16), 4 or 8; OFFSET; AFFINE; SCALE_SIZE 2 (half) or 4
// (float) bytes; SCALE_BLOCK; K, the padded number of columns.
#define MR_F32 0
#define MR_F16 1
#define MR_BF16 2

#define K_BLOCKS (K / 32)
#if CODES == 4
#define WORDS 4
#elif CODES == 8
#define WORDS 8
#endif
#ifdef WORDS
#define SCALES (AFFINE ? 2 : 32 / SCALE_BLOCK)
#define SCALE_SPACE ((K_BLOCKS * SCALES * 16 * SCALE_SIZE + 63) / 64 * 64)
#define PANEL_BYTES (SCALE_SPACE + K_BLOCKS * WORDS * 64)
#elif CODES == MR_F32
#define PANEL_BYTES (K * 64)
#else
#define PANEL_BYTES (K * 32)
#endif

// mr_weight reads one weight, row 0..15 of a panel and column k, for code that needs few of them.
#ifdef WORDS
static inline float mr_scale(__global const uchar* panel, uint row, uint block, uint i) {
  const uint at = (block * SCALES + i) * 16 + row;
#if SCALE_SIZE == 2
  return vload_half(at, (__global const half*)panel);
#else
  return ((__global const float*)panel)[at];
#endif
}

static inline int mr_code(__global const uchar* panel, uint row, uint k) {
  __global const uchar* block = panel + SCALE_SPACE + k / 32 * (WORDS * 64) + row * 4;
#if CODES == 4
  const uint pair = block[k % 32 / 8 * 64 + k % 4];
  return (int)(k % 8 < 4 ? pair & 15 : pair >> 4);
#else
  return (int)block[k % 32 / 4 * 64 + k % 4];
#endif
}
#endif

static inline float mr_weight(__global const uchar* panel, uint row, uint k) {
#if CODES == MR_F32
  return ((__global const float*)panel)[k * 16 + row];
#elif CODES == MR_F16
  return vload_half(k * 16 + row, (__global const half*)panel);
#elif CODES == MR_BF16
  return as_float((uint)((__global const ushort*)panel)[k * 16 + row] << 16);
#else
  const float code = (float)(mr_code(panel, row, k) - OFFSET);
#if AFFINE
  return fma(mr_scale(panel, row, k / 32, 0), code, mr_scale(panel, row, k / 32, 1));
#else
  return mr_scale(panel, row, k / 32, k % 32 / SCALE_BLOCK) * code;
#endif
#endif
}
