// Multiplies quantized columns (quantize/block.cl) by a packed matrix, with integer products over
// blocks:
//
//   out[c][r] = sum over k of weight[r][k] * x[c][k]   (+ bias[r]) (+ out[c][r] before)
//
// Contract, the same in every variant. For every block of 32 columns, ascending, from acc = +0:
//   SCALE_BLOCK 32:  i = sum of (code - OFFSET) * x code, exact;  acc = fma((float)i, d * s, acc)
//   AFFINE:          and then acc = fma(m, t, acc)
//   SCALE_BLOCK 16:  the same for columns 0..15 with d, then for columns 16..31 with d'
// then bias, then the old value. s, t belong to the block of x; d * s is rounded. i stays below
// 2^24, so that its conversion is exact. An output depends on its row and its column alone.
//
// Plain form: one work-item per output. A group has a panel and GROUP_COLUMNS columns, so that the
// first column brings the weights into the cache for the others.
//   x       int [columns][X_STRIDE]
//   the other arguments and the launch are those of exact_generic.cl
// Limit: memory; this form serves as the reference.

#define PART_WORDS (WORDS * SCALE_BLOCK / 32)  // words that share a scale

// Returns the sum of four codes, one per byte, times four of x.
static inline int mr_dot4(uint codes, int x) {
  int sum = 0;
  for (uint i = 0; i < 4; ++i) {
    sum += ((int)(codes >> (8 * i) & 255u) - OFFSET) * (x << (24 - 8 * i) >> 24);
  }
  return sum;
}

__kernel __attribute__((reqd_work_group_size(16, GROUP_COLUMNS, 1)))
void matmul(__global const uchar* weight, __global const int* x, __global float* out,
            __global const float* bias, uint panels, uint columns, uint out_stride, uint out_row,
            uint mode) {
  const uint row = (uint)get_local_id(0), p = (uint)get_group_id(0), c = (uint)get_global_id(1);
  if (c >= columns) return;
  __global const uchar* panel = weight + (size_t)p * PANEL_BYTES;
  x += (size_t)c * X_STRIDE;
  __global const uint* words = (__global const uint*)(panel + SCALE_SPACE) + row;
  float acc = 0.0f;
  for (uint b = 0; b < K_BLOCKS; ++b, x += Q_WORDS) {
    const float s = as_float(x[Q_SCALE]);
    for (uint part = 0; part < 32 / SCALE_BLOCK; ++part) {
      int sum = 0;
      for (uint i = part * PART_WORDS; i < (part + 1) * PART_WORDS; ++i) {
        const uint word = words[(b * WORDS + i) * 16];
#if CODES == 4
        sum += mr_dot4(word & 0x0f0f0f0fu, x[2 * i]);
        sum += mr_dot4(word >> 4 & 0x0f0f0f0fu, x[2 * i + 1]);
#else
        sum += mr_dot4(word, x[i]);
#endif
      }
      acc = fma((float)sum, mr_scale(panel, row, b, part) * s, acc);
    }
#if AFFINE
    acc = fma(mr_scale(panel, row, b, 1), as_float(x[Q_SUM]), acc);
#endif
  }
  if ((mode & 2) != 0) acc = acc + bias[out_row + p * 16 + row];
  out += (size_t)c * out_stride + out_row + p * 16 + row;
  if ((mode & 1) != 0) acc = acc + *out;
  *out = acc;
}
