#pragma once
// The integer matrix instruction of NVIDIA GPUs since compute capability 8.0, for a warp of 32
// work-items: sums += a x b, exact, for 16 rows and 8 columns of 32 or 16 bytes each.
//
//   lane 4g + t holds   of a, unsigned   rows g and g + 8, four bytes a word
//                       of b, signed     column g, four bytes a word
//                       of the sums      (row g, columns 2t and 2t + 1), (row g + 8, the same)
//
//   mr_mma32  a  {row g, word t}, {row g + 8, word t}, {row g, word t + 4}, {row g + 8, word t + 4}
//             b  {word t}, {word t + 4}
//   mr_mma16  a  {row g, word t}, {row g + 8, word t};  b  {word t}
//
// Words of a and b that stand for each other may be any, since a sum of integers has no order.
//
// MATRIX_UNIT 1 is the instruction. 0 computes the same through local memory, on any device, where
// all work-items of the group must call: so the kernels can be tested without such a GPU. A group
// is (32, MMA_WARPS) work-items.
//
//   MR_MMA_MEMORY  a statement at the beginning of the kernel; MR_MMA_ARGUMENT hands it on
#include "common/prelude.cl"

#ifndef MATRIX_UNIT
#define MATRIX_UNIT 0
#endif
#ifndef MMA_WARPS
#define MMA_WARPS 1
#endif

#if MATRIX_UNIT
#define MR_MMA_MEMORY
#define MR_MMA_PARAMETER
#define MR_MMA_ARGUMENT

static inline void mr_mma32(int* sums, const uint* a, const uint* b) {
  __asm__(
      "mma.sync.aligned.m16n8k32.row.col.s32.u8.s8.s32 "
      "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
      : "+r"(sums[0]), "+r"(sums[1]), "+r"(sums[2]), "+r"(sums[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}
static inline void mr_mma16(int* sums, const uint* a, const uint* b) {
  __asm__(
      "mma.sync.aligned.m16n8k16.row.col.s32.u8.s8.s32 "
      "{%0, %1, %2, %3}, {%4, %5}, {%6}, {%0, %1, %2, %3};"
      : "+r"(sums[0]), "+r"(sums[1]), "+r"(sums[2]), "+r"(sums[3])
      : "r"(a[0]), "r"(a[1]), "r"(b[0]));
}
#else
// The words of all lanes of a warp: four of a, then two of b.
#define MMA_WORDS 6
#define MR_MMA_MEMORY __local uint mma_memory[MMA_WARPS * 32 * MMA_WORDS];
#define MR_MMA_PARAMETER , __local uint* mma_memory
#define MR_MMA_ARGUMENT , mma_memory

static inline int mr_dot_bytes(uint a, uint b) {
  int sum = 0;
  MR_EACH(i, 4) sum += (int)(a >> (8 * i) & 255u) * ((int)(b << (24 - 8 * i)) >> 24);
  return sum;
}

// `halves` words of each row and column a lane: 2 or 1.
MR_GROUP_INLINE void mr_mma(int* sums, const uint* a, const uint* b, uint halves,
                            __local uint* mma_memory) {
  const uint lane = (uint)get_local_id(0), g = lane / 4, t = lane % 4;
  __local uint* warp = mma_memory + (uint)get_local_id(1) * (32 * MMA_WORDS);
  for (uint i = 0; i < 2 * halves; ++i) warp[lane * MMA_WORDS + i] = a[i];
  for (uint i = 0; i < halves; ++i) warp[lane * MMA_WORDS + 4 + i] = b[i];
  barrier(CLK_LOCAL_MEM_FENCE);
  for (uint i = 0; i < 4; ++i) {
    const uint column = 2 * t + i % 2;
    for (uint half_of = 0; half_of < halves; ++half_of) {
      for (uint u = 0; u < 4; ++u) {
        sums[i] += mr_dot_bytes(warp[(4 * g + u) * MMA_WORDS + 2 * half_of + i / 2],
                                warp[(4 * column + u) * MMA_WORDS + 4 + half_of]);
      }
    }
  }
  barrier(CLK_LOCAL_MEM_FENCE);
}
#define mr_mma32(sums, a, b) mr_mma(sums, a, b, 2, mma_memory)
#define mr_mma16(sums, a, b) mr_mma(sums, a, b, 1, mma_memory)
#endif
