#pragma once
// Stores the sums of a panel and tiles of 8 columns as the matrix unit of NVIDIA GPUs leaves them
// (mma.cl, wgmma.cl), with the unit or the scales of the product, plus what its mode adds.
//
// Or, with MODE_GATED, the activation of gate and up (activation/gate.cl). A panel then has 8 rows
// of gate, then those of the same 8 channels of up, so that a lane, which has the rows g and g + 8,
// has both of a channel. MATRIX_UNIT 1 takes the exponential and the reciprocal of the activation
// from the device's own instructions, within 2 ulp each: by those of gate.cl, the activations of a
// wide product took a tenth of its time. Otherwise the numbers are those that product, activation
// and conversion by kernels of their own would write.
#include "activation/gate.cl"
#include "common/halves.cl"
#include "common/prelude.cl"
#include "matmul/layout.cl"
#include "matmul/mode.h"
#include "quantize/code_block.h"

#ifndef RAGGED
#define RAGGED 0
#endif

// Tiles whose old outputs are read before the first is written, so that a work-item waits for
// memory once for all of them.
#define TILES_AT_ONCE 4

// What makes results of sums: H_UNIT or, for matrices of bytes, the scales of the lane's two rows
// and those of its columns, from the first that it stores on.
#if MR_BYTES
typedef int Sum;
typedef struct {
  float row[2];
  __local const float* columns;
} SumScales;
#define MR_SCALES_PARAMETER , SumScales scales
#define MR_SCALES_ARGUMENT , scales

MR_GROUP_INLINE SumScales mr_scales_of(__global const uchar* panel, __local const float* columns,
                                       uint row) {
  __global const float* rows = (__global const float*)(panel + INT8_SCALES_AT(INT8_GROUPS(K)));
  const SumScales out = {{rows[row], rows[row + 8]}, columns};
  return out;
}
#else
typedef float Sum;
#define MR_SCALES_PARAMETER
#define MR_SCALES_ARGUMENT
#endif

// The results of tile n of all that the lane stores.
MR_GROUP_INLINE void mr_results(float* results, const Sum* sums, int n MR_SCALES_PARAMETER) {
#if MR_BYTES
  const float2 by = *(__local const float2*)(scales.columns + 8 * n);
  MR_EACH(i, 2) {
    results[2 * i] = ((float)sums[2 * i] * by.x) * scales.row[i];
    results[2 * i + 1] = ((float)sums[2 * i + 1] * by.y) * scales.row[i];
  }
#else
  MR_EACH(i, 4) results[i] = sums[i] * H_UNIT;
#endif
}

// Stores what exists of `tiles` tiles from tile `begin` on, at most TILES_AT_ONCE; the lane's first
// column is `column`, and its rows are `row` and `row` + 8 of the output.
MR_GROUP_INLINE void mr_store_some(const Sum* sums, int begin, int tiles, __global float* out,
                                   const float* bias, uint row, uint column, uint columns,
                                   uint out_stride, uint mode MR_SCALES_PARAMETER) {
  float old[4 * TILES_AT_ONCE];
  __global float* first = out + (size_t)column * out_stride + row;
  if ((mode & MODE_ADDS) != 0) {
    MR_EACH(n, tiles) MR_EACH(i, 4) {
      const bool exists = column + 8 * n + i % 2 < columns;
      old[4 * n + i] = exists ? first[(size_t)(8 * n + i % 2) * out_stride + i / 2 * 8] : 0.0f;
    }
  }
  MR_EACH(n, tiles) {
    float results[4];
    mr_results(results, sums + 4 * n, begin + n MR_SCALES_ARGUMENT);
    MR_EACH(i, 4) {
      float sum = results[i];
      if ((mode & MODE_BIASED) != 0) sum = sum + bias[i / 2];
      if ((mode & MODE_ADDS) != 0) sum = sum + old[4 * n + i];
      if (column + 8 * n + i % 2 < columns) {
        first[(size_t)(8 * n + i % 2) * out_stride + i / 2 * 8] = sum;
      }
    }
  }
}

// The activation of a channel.
#if GATE_INPUTS == 2
static inline float mr_activation(float gate, float up) {
#if MATRIX_UNIT
  const float g = mr_gate(gate), e = fmin(mr_gate_exponent(g), 80.0f);
  float power, inverse;
  __asm__("ex2.approx.ftz.f32 %0, %1;" : "=f"(power) : "f"(e * 1.44269504f));
  __asm__("rcp.approx.ftz.f32 %0, %1;" : "=f"(inverse) : "f"(power + 1.0f));
  return (g * inverse) * mr_gate_factor(up);
#else
  return mr_gate_mul(gate, up);
#endif
}

// Stores the activations of what exists of `tiles` tiles, at most TILES_AT_ONCE. `out` has rows of
// channels, out_stride floats each, or codes, out_stride words each.
MR_GROUP_INLINE void mr_store_gated(const Sum* sums, int begin, int tiles, __global void* out,
                                    const float* bias, uint channel, uint column, uint columns,
                                    uint out_stride, uint mode MR_SCALES_PARAMETER) {
  // Of the lane's two columns of the first tile; those of the others stand in the same panel of
  // rows, eight rows of eight vectors further each, but for tiles of experts, which begin anywhere.
  __global ushort* codes[2];
  MR_EACH(i, 2) {
    codes[i] = (__global ushort*)out + channel % 8 +
               H_VECTOR_AT((size_t)column + i, channel / 8, out_stride / 4) * 8;
  }
  __global float* rows = (__global float*)out + channel;
  MR_EACH(n, tiles) {
    float results[4], value[2];
    mr_results(results, sums + 4 * n, begin + n MR_SCALES_ARGUMENT);
    MR_EACH(i, 2) {
      float gate = results[i], up = results[2 + i];
      if ((mode & MODE_BIASED) != 0) {
        gate = gate + bias[0];
        up = up + bias[1];
      }
      value[i] = mr_activation(gate, up);
    }
    const uint halves = mr_halves(value[0] * H_SCALE, value[1] * H_SCALE);
    MR_EACH(i, 2) {
      const uint at = column + 8 * n + i;
      if (at < columns) {
        if ((mode & MODE_CODES) != 0) {
#if RAGGED
          const size_t vector = H_VECTOR_AT((size_t)at, channel / 8, out_stride / 4);
          ((__global ushort*)out)[vector * 8 + channel % 8] = (ushort)(halves >> (16 * i));
#else
          codes[i][n * (8 * 8 * 8)] = (ushort)(halves >> (16 * i));
#endif
        } else {
          rows[(size_t)at * out_stride] = value[i];
        }
      }
    }
  }
}

// The same as codes, without biases, where all columns exist: without a branch, so that the device
// works on all tiles at the same time.
MR_GROUP_INLINE void mr_store_gated_codes(const Sum* sums, int begin, int tiles,
                                          __global ushort* out, uint channel, uint column,
                                          uint out_stride MR_SCALES_PARAMETER) {
  __global ushort* codes[2];
  MR_EACH(i, 2) {
    codes[i] =
        out + channel % 8 + H_VECTOR_AT((size_t)column + i, channel / 8, out_stride / 4) * 8;
  }
  uint halves[TILES_AT_ONCE];
  MR_EACH(n, tiles) {
    float results[4];
    mr_results(results, sums + 4 * n, begin + n MR_SCALES_ARGUMENT);
    halves[n] = mr_halves(mr_activation(results[0], results[2]) * H_SCALE,
                          mr_activation(results[1], results[3]) * H_SCALE);
  }
  MR_EACH(n, tiles) MR_EACH(i, 2) codes[i][n * (8 * 8 * 8)] = (ushort)(halves[n] >> (16 * i));
}
#endif

MR_GROUP_INLINE void mr_store_tiles(const Sum* sums, int tiles, __global float* out,
                                    __global const float* bias, uint row, uint column,
                                    uint columns, uint out_stride,
                                    uint mode MR_SCALES_PARAMETER) {
  float own_bias[2] = {0.0f, 0.0f};
  if ((mode & MODE_BIASED) != 0) {
    own_bias[0] = bias[row];
    own_bias[1] = bias[row + 8];
  }
  MR_EACH(turn, (tiles + TILES_AT_ONCE - 1) / TILES_AT_ONCE) {
    const int begin = turn * TILES_AT_ONCE, rest = tiles - begin;
    const int count = rest < TILES_AT_ONCE ? rest : TILES_AT_ONCE;
    const uint first = column + 8 * begin;
#if GATE_INPUTS == 2
    if ((mode & MODE_GATED) != 0) {
      // A branch of its own for each turn: else the compiler computes all at once, and lacks
      // registers.
      if (!RAGGED && mode == (MODE_GATED | MODE_CODES) && first + 8 * count - 7 < columns) {
        mr_store_gated_codes(sums + 4 * begin, begin, count, (__global ushort*)out,
                             row / 16 * 8 + row % 8, first, out_stride MR_SCALES_ARGUMENT);
      } else if (first < columns) {
        mr_store_gated(sums + 4 * begin, begin, count, out, own_bias, row / 16 * 8 + row % 8, first,
                       columns, out_stride, mode MR_SCALES_ARGUMENT);
      }
      continue;
    }
#endif
    if (MR_BYTES && first >= columns) continue;  // likewise
    mr_store_some(sums + 4 * begin, begin, count, out, own_bias, row, first, columns, out_stride,
                  mode MR_SCALES_ARGUMENT);
  }
}
