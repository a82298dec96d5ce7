#pragma once
// A token's row of qkv: HEADS queries, from K_ROW on KV_HEADS keys, from V_ROW on KV_HEADS values,
// each of HEAD_DIM channels, a multiple of 16.
//
// With VALUES_IN_KEYS 1 (multi-head latent attention) there are no rows of values: a value is the
// VALUE_DIM channels of its key from VALUE_FIRST on, both multiples of 16.
#ifndef HEAD_DIM
#define HEAD_DIM 64
#endif
#ifndef HEADS
#define HEADS 8
#endif
#ifndef KV_HEADS
#define KV_HEADS HEADS
#endif
#ifndef K_ROW
#define K_ROW (HEADS * HEAD_DIM)
#endif
#ifndef V_ROW
#define V_ROW (K_ROW + KV_HEADS * HEAD_DIM)
#endif
#ifndef VALUES_IN_KEYS
#define VALUES_IN_KEYS 0
#endif
#ifndef VALUE_DIM
#define VALUE_DIM HEAD_DIM
#define VALUE_FIRST 0
#endif

// The heads of a KV head come in HEAD_SETS / KV_HEADS sets of GROUP: those of a set share the loads
// of keys and values.
#ifndef HEAD_SETS
#define HEAD_SETS KV_HEADS
#endif
#define GROUP (HEADS / HEAD_SETS)
