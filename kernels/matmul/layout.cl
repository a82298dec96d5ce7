// How a weight matrix [rows, K] lies in memory: panels of 16 rows, in the type of the model file.
//
//   panel p holds rows 16p .. 16p+15; missing rows and columns are zero; K is padded to 32s.
//   With kb = padded K / 32, one panel is (sizes in bytes):
//
//     MR_F32          values [K][16] float
//     MR_F16, MR_BF16 values [K][16] ushort
//     MR_Q8_0         d [kb][16] half,     then codes [K][16] char
//     MR_Q4_0         d [kb][16] half,     then codes [K/2][16] uchar: k even low, k odd high bits
//     MR_Q4_1         d, m [kb][2][16] half, then codes as Q4_0
//
//   A weight is exactly what the file defines: Q8_0 d*q, Q4_0 d*(q-8), Q4_1 d*q+m in fp32; the
//   products are exact there, so one fma rounds once, as a multiply and an add do.
//
// Defines: TYPE one of the above, K the padded number of columns.
#define MR_F32 0
#define MR_F16 1
#define MR_Q4_0 2
#define MR_Q4_1 3
#define MR_Q8_0 8
#define MR_BF16 30

#define K_BLOCKS (K / 32)
#if TYPE == MR_F32
#define SCALE_BYTES 0
#define CODE_BYTES (K * 64)
#elif TYPE == MR_F16 || TYPE == MR_BF16
#define SCALE_BYTES 0
#define CODE_BYTES (K * 32)
#elif TYPE == MR_Q8_0
#define SCALE_BYTES (K_BLOCKS * 32)
#define CODE_BYTES (K * 16)
#elif TYPE == MR_Q4_0
#define SCALE_BYTES (K_BLOCKS * 32)
#define CODE_BYTES (K * 8)
#elif TYPE == MR_Q4_1
#define SCALE_BYTES (K_BLOCKS * 64)
#define CODE_BYTES (K * 8)
#endif
// Scales and codes begin at multiples of 64 bytes.
#define SCALE_SPACE ((SCALE_BYTES + 63) / 64 * 64)
#define PANEL_BYTES (SCALE_SPACE + (CODE_BYTES + 63) / 64 * 64)

// One weight, for code that needs few of them: row 0..15 of a panel, column k.
static inline float mr_weight(__global const uchar* panel, uint row, uint k) {
#if TYPE == MR_F32
  return ((__global const float*)panel)[k * 16 + row];
#elif TYPE == MR_F16
  return vload_half(k * 16 + row, (__global const half*)panel);
#elif TYPE == MR_BF16
  return as_float((uint)((__global const ushort*)panel)[k * 16 + row] << 16);
#elif TYPE == MR_Q8_0
  const float d = vload_half(k / 32 * 16 + row, (__global const half*)panel);
  return d * (float)((__global const char*)panel)[SCALE_SPACE + k * 16 + row];
#else
  const uint pair = panel[SCALE_SPACE + k / 2 * 16 + row];
  const int code = (int)((k & 1) != 0 ? pair >> 4 : pair & 15);
#if TYPE == MR_Q4_0
  const float d = vload_half(k / 32 * 16 + row, (__global const half*)panel);
  return d * (float)(code - 8);
#else
  const float d = vload_half(k / 32 * 32 + row, (__global const half*)panel);
  const float m = vload_half(k / 32 * 32 + 16 + row, (__global const half*)panel);
  return fma(d, (float)code, m);
#endif
#endif
}
