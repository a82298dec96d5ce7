#pragma once
// What kernels of NVIDIA GPUs since compute capability 8.0 need besides OpenCL C, for a warp of 32
// work-items. A group is (32, GROUP_WARPS) work-items.
//
// mr_mma_halves(sums, a, b): sums += a x b for 16 rows and 8 columns of 16 halves each, in float;
// the order of its additions is the unit's own.
//
//   lane 4g + t holds   of a      {row g, pair t}, {row g + 8, pair t},
//                                 {row g, pair t + 4}, {row g + 8, pair t + 4}
//                       of b      {column g, pair t}, {column g, pair t + 4}
//                       of sums   (row g, columns 2t and 2t + 1), (row g + 8, the same)
//
// Pairs of a and b that stand for each other may be any.
//
// mr_mma_bytes(sums, a, b): the same of signed bytes, 32 for 16 halves, in integers; a word holds
// four bytes for a pair. mr_mma_codes(sums, a, b): bytes of a have no sign.
//
// mr_load_columns(tile, lane): the words of b for two instructions, 32 halves of each of 8 columns:
// two words for the first 16 halves, two for the others. Vector m of column c, of four, stands in
// local memory at tile[MR_COLUMN_AT(c, m)], so that 8 lanes never meet in a bank.
//
// MR_LOAD_TURNED(words, tile, AT, lane): turns four squares of 8 by 8 halves over, whose row r is
// the vector tile[AT(m, r)] of square m, in local memory: lane 4g + t gets, in word m, the halves
// of column g in rows 2t and 2t + 1. They are operand b of a matrix whose rows are such vectors.
//
// mr_load_rows(a, tile, m, lane): the words of a of vectors m and m + 1 of 16 rows of eight
// vectors; vector m of row r stands at tile[r * 8 + (m ^ (r % 8))].
//
// mr_load_unit_columns(tile, m, lane): the words of b of vectors m .. m + 3 of eight columns, for
// two instructions; vector m of column c stands at tile[c * 8 + (m ^ c)].
//
// mr_load_pair(pair): two words of local memory, in registers that follow each other, as operand a
// has them. Loads of more, as compilers join them, would have to be sorted.
//
// mr_copy16(to, from): begins to copy four words from global to local memory.
// mr_copy16_if(exists, to, from) writes zeros, and reads nothing, where nothing exists.
// MR_COPIES_BEGUN() ends a set of copies; MR_WAIT_FOR_COPIES(n) waits until at most the n last sets
// are under way.
//
// MATRIX_UNIT 1 is the instruction. 0 computes the same through local memory, on any device, where
// all work-items of the group must call: so the kernels can be tested without such a GPU.
//
//   MR_MMA_MEMORY  a statement at the beginning of the kernel
//   MR_MMA_PARAMETER, MR_MMA_ARGUMENT  the last of functions that multiply
//   MR_UNIT_EACH   MR_EACH around instructions; a plain loop without the unit, for which unrolled
//                  loops would compile for minutes
//   MR_UNROLLED    before a loop of another form, likewise
#include "common/halves.cl"
#include "common/prelude.cl"

#ifndef GROUP_WARPS
#define GROUP_WARPS 1
#endif

#define MR_COLUMN_AT(c, m) ((c) * 4 + ((m) ^ ((c) / 2 & 3)))

#if MATRIX_UNIT
#define MR_MMA_MEMORY
#define MR_MMA_PARAMETER
#define MR_MMA_ARGUMENT
#define MR_UNIT_EACH MR_EACH
#define MR_UNROLLED _Pragma("unroll")

static inline void mr_mma_halves(float* sums, const uint* a, const uint* b) {
  __asm__(
      "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
      "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
      : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}
static inline void mr_mma_bytes(int* sums, const uint* a, const uint* b) {
  __asm__(
      "mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 "
      "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
      : "+r"(sums[0]), "+r"(sums[1]), "+r"(sums[2]), "+r"(sums[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}
static inline void mr_mma_codes(int* sums, const uint* a, const uint* b) {
  __asm__(
      "mma.sync.aligned.m16n8k32.row.col.s32.u8.s8.s32 "
      "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
      : "+r"(sums[0]), "+r"(sums[1]), "+r"(sums[2]), "+r"(sums[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}
MR_GROUP_INLINE uint2 mr_load_pair(__local const uint2* pair) {
  uint2 words;
  __asm__ volatile("ld.shared.v2.u32 {%0, %1}, [%2];"
                   : "=r"(words.x), "=r"(words.y)
                   : "r"((uint)(size_t)pair)
                   : "memory");
  return words;
}
MR_GROUP_INLINE uint4 mr_load_words(__local const uint4* row) {
  uint4 words;
  __asm__ volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                   : "=r"(words.x), "=r"(words.y), "=r"(words.z), "=r"(words.w)
                   : "r"((uint)(size_t)row)
                   : "memory");
  return words;
}
MR_GROUP_INLINE uint4 mr_load_columns(__local const uint4* tile, uint lane) {
  return mr_load_words(tile + MR_COLUMN_AT(lane % 8, lane / 8));
}
MR_GROUP_INLINE uint4 mr_load_unit_columns(__local const uint4* tile, uint m, uint lane) {
  return mr_load_words(tile + lane % 8 * 8 + ((m + lane / 8) ^ lane % 8));
}
MR_GROUP_INLINE uint4 mr_load_turned(__local const uint4* row) {
  uint4 words;
  __asm__ volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                   : "=r"(words.x), "=r"(words.y), "=r"(words.z), "=r"(words.w)
                   : "r"((uint)(size_t)row)
                   : "memory");
  return words;
}
#define MR_LOAD_TURNED(words, tile, AT, lane) \
  words = mr_load_turned((tile) + AT((lane) / 8, (lane) % 8))
MR_GROUP_INLINE void mr_load_rows(uint* a, __local const uint4* tile, uint m, uint lane) {
  const uint row = lane % 16;
  __asm__ volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                   : "=r"(a[0]), "=r"(a[1]), "=r"(a[2]), "=r"(a[3])
                   : "r"((uint)(size_t)(tile + row * 8 + ((m + lane / 16) ^ row % 8)))
                   : "memory");
}
MR_GROUP_INLINE void mr_copy16(__local uint4* to, __global const uint4* from) {
  __asm__ volatile("cp.async.cg.shared.global [%0], [%1], 16;"
                   :
                   : "r"((uint)(size_t)to), "l"(from)
                   : "memory");
}
MR_GROUP_INLINE void mr_copy16_if(int exists, __local uint4* to, __global const uint4* from) {
  __asm__ volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;"
                   :
                   : "r"((uint)(size_t)to), "l"(from), "r"(exists ? 16 : 0)
                   : "memory");
}
#define MR_COPIES_BEGUN() __asm__ volatile("cp.async.commit_group;" : : : "memory")
#define MR_WAIT_FOR_COPIES(n) __asm__ volatile("cp.async.wait_group %0;" : : "n"(n) : "memory")
#else
// The words of all lanes of a warp: four of a, then two of b.
#define MMA_WORDS 6
#define MR_UNIT_EACH(i, n) _Pragma("unroll 1") for (int i = 0; i < (n); ++i)
#define MR_UNROLLED _Pragma("unroll 1")
#define MR_MMA_MEMORY __local uint mma_memory[GROUP_WARPS * 32 * MMA_WORDS];
#define MR_MMA_PARAMETER , __local uint* mma_memory
#define MR_MMA_ARGUMENT , mma_memory

MR_GROUP_INLINE float mr_dot_halves(__local const uint* a, __local const uint* b) {
  __local const half* x = (__local const half*)a;
  __local const half* y = (__local const half*)b;
  return fma(vload_half(0, x), vload_half(0, y), vload_half(1, x) * vload_half(1, y));
}

MR_GROUP_INLINE int mr_dot_bytes(__local const uint* a, __local const uint* b) {
  const int4 products = convert_int4(as_char4(*a)) * convert_int4(as_char4(*b));
  return products.x + products.y + products.z + products.w;
}

MR_GROUP_INLINE int mr_dot_codes(__local const uint* a, __local const uint* b) {
  const int4 products = convert_int4(as_uchar4(*a)) * convert_int4(as_char4(*b));
  return products.x + products.y + products.z + products.w;
}

#define MR_MMA_EMULATED(NAME, T, DOT)                                                       \
  MR_GROUP_INLINE void NAME(T* sums, const uint* a, const uint* b, __local uint* mma_memory) { \
    const uint lane = (uint)get_local_id(0), g = lane / 4, t = lane % 4;                    \
    __local uint* warp = mma_memory + (uint)get_local_id(1) * (32 * MMA_WORDS);             \
    for (uint i = 0; i < 4; ++i) warp[lane * MMA_WORDS + i] = a[i];                         \
    for (uint i = 0; i < 2; ++i) warp[lane * MMA_WORDS + 4 + i] = b[i];                     \
    barrier(CLK_LOCAL_MEM_FENCE);                                                           \
    for (uint i = 0; i < 4; ++i) {                                                          \
      const uint column = 2 * t + i % 2;                                                    \
      for (uint pair = 0; pair < 8; ++pair) {                                               \
        const uint u = pair % 4, later = pair / 4;                                          \
        sums[i] += DOT(warp + (4 * g + u) * MMA_WORDS + 2 * later + i / 2,                  \
                       warp + (4 * column + u) * MMA_WORDS + 4 + later);                    \
      }                                                                                     \
    }                                                                                       \
    barrier(CLK_LOCAL_MEM_FENCE);                                                           \
  }
MR_MMA_EMULATED(mr_halves_emulated, float, mr_dot_halves)
MR_MMA_EMULATED(mr_bytes_emulated, int, mr_dot_bytes)
MR_MMA_EMULATED(mr_codes_emulated, int, mr_dot_codes)
#define mr_mma_halves(sums, a, b) mr_halves_emulated(sums, a, b, mma_memory)
#define mr_mma_bytes(sums, a, b) mr_bytes_emulated(sums, a, b, mma_memory)
#define mr_mma_codes(sums, a, b) mr_codes_emulated(sums, a, b, mma_memory)

#define mr_load_pair(pair) (*(pair))
MR_GROUP_INLINE uint4 mr_load_columns(__local const uint4* tile, uint lane) {
  const uint g = lane / 4, t = lane % 4;
  uint words[4];
  for (uint m = 0; m < 4; ++m) words[m] = ((__local const uint*)(tile + MR_COLUMN_AT(g, m)))[t];
  return (uint4)(words[0], words[1], words[2], words[3]);
}

MR_GROUP_INLINE uint4 mr_load_unit_columns(__local const uint4* tile, uint m, uint lane) {
  const uint g = lane / 4, t = lane % 4;
  uint words[4];
  MR_EACH(i, 4) words[i] = ((__local const uint*)(tile + g * 8 + ((m + i) ^ g)))[t];
  return (uint4)(words[0], words[1], words[2], words[3]);
}

#define MR_TURNED_HALF(tile, AT, m, r, g) \
  ((uint)((__local const ushort*)((tile) + AT(m, r)))[g])
#define MR_LOAD_TURNED(words, tile, AT, lane)                                        \
  {                                                                                  \
    uint turned[4];                                                                  \
    for (uint m = 0; m < 4; ++m) {                                                   \
      turned[m] = MR_TURNED_HALF(tile, AT, m, 2 * ((lane) % 4), (lane) / 4) |        \
                  MR_TURNED_HALF(tile, AT, m, 2 * ((lane) % 4) + 1, (lane) / 4) << 16; \
    }                                                                                \
    words = (uint4)(turned[0], turned[1], turned[2], turned[3]);                     \
  }
MR_GROUP_INLINE void mr_load_rows(uint* a, __local const uint4* tile, uint m, uint lane) {
  const uint g = lane / 4, t = lane % 4;
  MR_EACH(i, 4) {
    const uint row = g + i % 2 * 8;
    a[i] = ((__local const uint*)(tile + row * 8 + ((m + i / 2) ^ row % 8)))[t];
  }
}

MR_GROUP_INLINE void mr_copy16(__local uint4* to, __global const uint4* from) {
  *to = *from;
}
MR_GROUP_INLINE void mr_copy16_if(int exists, __local uint4* to, __global const uint4* from) {
  *to = (uint4)(0);
  if (exists) *to = *from;
}
#define MR_COPIES_BEGUN()
#define MR_WAIT_FOR_COPIES(n)
#endif
