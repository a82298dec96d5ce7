#pragma once
// What kernels of NVIDIA GPUs of compute capability 9.0 need besides mma.cl: products of a group of
// four warps, which read one operand or both from local memory (arrivals.cl has copies).
//
// OpenCL programs are built for sm_90, which lacks the products: an instruction that only sm_90a
// has is a comment of the assembler that begins with "//@90a ". The driver fills in its operands,
// and engine/core/device/completed_text.hpp takes the mark away and builds the text again.
//
// MR_WGMMA(sums, a, columns), MR_WGMMA_ROWS(sums, rows, columns): sums += a x columns for 64 rows
// and TILE_COLUMNS columns of 16 halves, like mr_mma_halves (mma.cl) for each warp's 16 rows and
// each 8 columns: sums[4n + i] is element i of tile n. They only begin; operands and sums are the
// unit's until MR_WGMMA_WAIT.
// MR_WGMMA_BYTES(sums, rows, columns): the same as MR_WGMMA_ROWS for 32 signed bytes in place of 16
// halves, and sums that are int, for matrices of bytes (layout.cl).
// `columns` describes (mr_columns) a place in rows of 64 halves, one for each column: 128 bytes,
// in which vector m of column c stands at m ^ (c % 8), from a multiple of 1024 bytes on; 16 halves
// further is 2 more. `rows` describes the same of the 64 rows.
#include "common/prelude.cl"
#include "matmul/arrivals.cl"
#include "matmul/layout.cl"

#ifndef TILE_COLUMNS
#define TILE_COLUMNS 8
#endif
#define TILE_SUMS (TILE_COLUMNS / 2)  // of a lane

#define MR_ONLY_90A "//@90a "
#if MR_BYTES
#define SUM_REGISTER "+r"
#else
#define SUM_REGISTER "+f"
#endif
#define MR_SUMS_4(s, i) \
  SUM_REGISTER(s[i]), SUM_REGISTER(s[i + 1]), SUM_REGISTER(s[i + 2]), SUM_REGISTER(s[i + 3])
#define MR_SUMS_16(s, i) \
  MR_SUMS_4(s, i), MR_SUMS_4(s, i + 4), MR_SUMS_4(s, i + 8), MR_SUMS_4(s, i + 12)
#define MR_SUMS_64(s, i) \
  MR_SUMS_16(s, i), MR_SUMS_16(s, i + 16), MR_SUMS_16(s, i + 32), MR_SUMS_16(s, i + 48)
#define MR_TEN(d)                                                                              \
  "%" #d "0, %" #d "1, %" #d "2, %" #d "3, %" #d "4, %" #d "5, %" #d "6, %" #d "7, %" #d "8, %" \
  #d "9"
#define MR_TEXT_4 "%0, %1, %2, %3"
#define MR_TEXT_8 MR_TEXT_4 ", %4, %5, %6, %7"
#define MR_TEXT_10 MR_TEXT_8 ", %8, %9"
#define MR_TEXT_12 MR_TEXT_10 ", %10, %11"
#define MR_TEXT_16 MR_TEXT_12 ", %12, %13, %14, %15"
#define MR_TEXT_20 MR_TEXT_10 ", " MR_TEN(1)
#define MR_TEXT_24 MR_TEXT_20 ", %20, %21, %22, %23"
#define MR_TEXT_30 MR_TEXT_20 ", " MR_TEN(2)
#define MR_TEXT_32 MR_TEXT_30 ", %30, %31"
#define MR_TEXT_40 MR_TEXT_30 ", " MR_TEN(3)
#define MR_TEXT_48 MR_TEXT_40 ", %40, %41, %42, %43, %44, %45, %46, %47"
#define MR_TEXT_60 MR_TEXT_40 ", " MR_TEN(4) ", " MR_TEN(5)
#define MR_TEXT_64 MR_TEXT_60 ", %60, %61, %62, %63"
#define MR_TEXT_80 MR_TEXT_60 ", " MR_TEN(6) ", " MR_TEN(7)
#define MR_TEXT_96 MR_TEXT_80 ", " MR_TEN(8) ", %90, %91, %92, %93, %94, %95"
#define MR_TEXT_120 \
  MR_TEXT_80 ", " MR_TEN(8) ", " MR_TEN(9) ", " MR_TEN(10) ", " MR_TEN(11)
#define MR_TEXT_128 MR_TEXT_120 ", %120, %121, %122, %123, %124, %125, %126, %127"

// The names of the sums, their operands, and the numbers of the operands that follow them, which
// are four registers and a place, or two places.
#if TILE_COLUMNS == 8
#define MR_SUMS_TEXT MR_TEXT_4
#define MR_SUMS_OPERANDS(s) MR_SUMS_4(s, 0)
#define MR_OTHER_TEXT "{%4, %5, %6, %7}, %8"
#define MR_ROWS_TEXT "%4, %5"
#elif TILE_COLUMNS == 16
#define MR_SUMS_TEXT MR_TEXT_8
#define MR_SUMS_OPERANDS(s) MR_SUMS_4(s, 0), MR_SUMS_4(s, 4)
#define MR_OTHER_TEXT "{%8, %9, %10, %11}, %12"
#define MR_ROWS_TEXT "%8, %9"
#elif TILE_COLUMNS == 24
#define MR_SUMS_TEXT MR_TEXT_12
#define MR_SUMS_OPERANDS(s) MR_SUMS_4(s, 0), MR_SUMS_4(s, 4), MR_SUMS_4(s, 8)
#define MR_OTHER_TEXT "{%12, %13, %14, %15}, %16"
#define MR_ROWS_TEXT "%12, %13"
#elif TILE_COLUMNS == 32
#define MR_SUMS_TEXT MR_TEXT_16
#define MR_SUMS_OPERANDS(s) MR_SUMS_16(s, 0)
#define MR_OTHER_TEXT "{%16, %17, %18, %19}, %20"
#define MR_ROWS_TEXT "%16, %17"
#elif TILE_COLUMNS == 48
#define MR_SUMS_TEXT MR_TEXT_24
#define MR_SUMS_OPERANDS(s) MR_SUMS_16(s, 0), MR_SUMS_4(s, 16), MR_SUMS_4(s, 20)
#define MR_OTHER_TEXT "{%24, %25, %26, %27}, %28"
#define MR_ROWS_TEXT "%24, %25"
#elif TILE_COLUMNS == 64
#define MR_SUMS_TEXT MR_TEXT_32
#define MR_SUMS_OPERANDS(s) MR_SUMS_16(s, 0), MR_SUMS_16(s, 16)
#define MR_OTHER_TEXT "{%32, %33, %34, %35}, %36"
#define MR_ROWS_TEXT "%32, %33"
#elif TILE_COLUMNS == 96
#define MR_SUMS_TEXT MR_TEXT_48
#define MR_SUMS_OPERANDS(s) MR_SUMS_16(s, 0), MR_SUMS_16(s, 16), MR_SUMS_16(s, 32)
#define MR_OTHER_TEXT "{%48, %49, %50, %51}, %52"
#define MR_ROWS_TEXT "%48, %49"
#elif TILE_COLUMNS == 128
#define MR_SUMS_TEXT MR_TEXT_64
#define MR_SUMS_OPERANDS(s) MR_SUMS_64(s, 0)
#define MR_OTHER_TEXT "{%64, %65, %66, %67}, %68"
#define MR_ROWS_TEXT "%64, %65"
#elif TILE_COLUMNS == 160
#define MR_SUMS_TEXT MR_TEXT_80
#define MR_SUMS_OPERANDS(s) MR_SUMS_64(s, 0), MR_SUMS_16(s, 64)
#define MR_OTHER_TEXT "{%80, %81, %82, %83}, %84"
#define MR_ROWS_TEXT "%80, %81"
#elif TILE_COLUMNS == 192
#define MR_SUMS_TEXT MR_TEXT_96
#define MR_SUMS_OPERANDS(s) MR_SUMS_64(s, 0), MR_SUMS_16(s, 64), MR_SUMS_16(s, 80)
#define MR_OTHER_TEXT "{%96, %97, %98, %99}, %100"
#define MR_ROWS_TEXT "%96, %97"
#elif TILE_COLUMNS == 256
#define MR_SUMS_TEXT MR_TEXT_128
#define MR_SUMS_OPERANDS(s) MR_SUMS_64(s, 0), MR_SUMS_64(s, 64)
#define MR_OTHER_TEXT "{%128, %129, %130, %131}, %132"
#define MR_ROWS_TEXT "%128, %129"
#endif
#define MR_QUOTED(n) #n
#define MR_NUMBER(n) MR_QUOTED(n)

#define MR_WGMMA(sums, a, columns)                                                            \
  __asm__ volatile(MR_ONLY_90A                                                                \
                   "{ .reg .pred adds; setp.eq.u32 adds, 0, 0; "                               \
                   "wgmma.mma_async.sync.aligned.m64n" MR_NUMBER(TILE_COLUMNS)                \
                   "k16.f32.f16.f16 {" MR_SUMS_TEXT "}, " MR_OTHER_TEXT ", adds, 1, 1, 0; }"  \
                   : MR_SUMS_OPERANDS(sums)                                                   \
                   : "r"((a)[0]), "r"((a)[1]), "r"((a)[2]), "r"((a)[3]), "l"(columns))
#define MR_WGMMA_ROWS(sums, rows, columns)                                                       \
  __asm__ volatile(MR_ONLY_90A                                                                   \
                   "{ .reg .pred adds; setp.eq.u32 adds, 0, 0; "                                  \
                   "wgmma.mma_async.sync.aligned.m64n" MR_NUMBER(TILE_COLUMNS)                   \
                   "k16.f32.f16.f16 {" MR_SUMS_TEXT "}, " MR_ROWS_TEXT ", adds, 1, 1, 0, 0; }"   \
                   : MR_SUMS_OPERANDS(sums)                                                      \
                   : "l"(rows), "l"(columns))
#define MR_WGMMA_BYTES(sums, rows, columns)                                                      \
  __asm__ volatile(MR_ONLY_90A                                                                   \
                   "{ .reg .pred adds; setp.eq.u32 adds, 0, 0; "                                  \
                   "wgmma.mma_async.sync.aligned.m64n" MR_NUMBER(TILE_COLUMNS)                   \
                   "k32.s32.s8.s8 {" MR_SUMS_TEXT "}, " MR_ROWS_TEXT ", adds; }"                 \
                   : MR_SUMS_OPERANDS(sums)                                                      \
                   : "l"(rows), "l"(columns))
// Before products: registers that are their operands have been written.
#define MR_WGMMA_BEGIN() __asm__ volatile(MR_ONLY_90A "wgmma.fence.sync.aligned;" : : : "memory")
// Ends a set of products.
#define MR_WGMMA_BEGUN() \
  __asm__ volatile(MR_ONLY_90A "wgmma.commit_group.sync.aligned;" : : : "memory")
// Waits until at most the last set is under way.
#define MR_WGMMA_WAIT_FOR_EARLIER() \
  __asm__ volatile(MR_ONLY_90A "wgmma.wait_group.sync.aligned 1;" : : : "memory")
// Waits for all; only then may the sums be read.
#define MR_WGMMA_WAIT(sums)                                          \
  __asm__ volatile(MR_ONLY_90A "wgmma.wait_group.sync.aligned 0;"    \
                   : MR_SUMS_OPERANDS(sums)                          \
                   :                                                 \
                   : "memory")

// Addresses in local memory are 32 bits here.
MR_GROUP_INLINE ulong mr_columns(uint address) {
  return (ulong)(address >> 4) | 1ul << 16 | 64ul << 32 | 1ul << 62;
}

// Waits for the other lanes of the warp, and shows them what this one wrote to local memory.
#define MR_WARP_BARRIER() __asm__ volatile("bar.warp.sync 0xffffffff;" : : : "memory")
