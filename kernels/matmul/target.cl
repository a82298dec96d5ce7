#pragma once
// The attributes of functions that use instructions which the driver does not compile for.
//
// PoCL 3.1 compiles for a processor without VNNI, whatever the real one. Other instructions are
// allowed only inside functions that name them and are not inlined (MR_TARGET), and in functions
// that are inlined into those (MR_TARGET_INLINE). The host chooses the instructions by DOT
// (dot.cl).
#ifndef DOT
#define DOT 0
#endif

#if DOT >= 3
#define MR_TARGET __attribute__((noinline, target("avx512f,avx512bw,avx512vnni")))
#define MR_TARGET_INLINE __attribute__((always_inline, target("avx512f,avx512bw,avx512vnni")))
#elif DOT == 2
#define MR_TARGET __attribute__((noinline, target("avx512f,avx512bw")))
#define MR_TARGET_INLINE __attribute__((always_inline, target("avx512f,avx512bw")))
#elif DOT == 1
#define MR_TARGET __attribute__((noinline, target("avx2,fma")))
#define MR_TARGET_INLINE __attribute__((always_inline, target("avx2,fma")))
#else
#define MR_TARGET __attribute__((noinline))
#define MR_TARGET_INLINE __attribute__((always_inline))
#endif
