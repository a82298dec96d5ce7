#pragma once
// A token's row of qkv: HEADS queries, from K_ROW on KV_HEADS keys, from V_ROW on KV_HEADS values,
// each of HEAD_DIM channels, a multiple of 16.
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

// Query heads that share a key.
#define GROUP (HEADS / KV_HEADS)
