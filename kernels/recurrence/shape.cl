#pragma once
// The shape of a recurrent layer, and where its parts stand in a row of its first product, `mixed`,
// and in a state. engine/core/model/recurrence.hpp gives every define; the defaults name a plain
// case.
//
//   mixed  float [tokens][stride]. From CHANNELS_AT on, CHANNELS channels that the convolution
//          takes:  delta net  queries KEY_HEADS * KEY_DIM | keys KEY_HEADS * KEY_DIM | values
//                  Mamba 2    values | keys | queries: in its papers x, B and C
//          with RECUR_HEADS * RECUR_VALUE_DIM values. VALUES_AT, KEYS_AT and QUERIES_AT say where
//          each begins. Further numbers of the row have places of their own: the output's gates,
//          RECUR_HEADS * RECUR_VALUE_DIM from GATES_AT on; and for each head two numbers that
//          become its strength of writing and its decay, from WRITES_AT and DECAYS_AT on
//   state  float [STATE_FLOATS], of one sequence in one layer:
//          [RECUR_HEADS][RECUR_VALUE_DIM / 16][KEY_DIM][16] the matrix of each head, key by value
//          [TAPS - 1][CHANNELS]                 the inputs of the convolution before the next
//                                               token, the oldest first; from HISTORY_AT on
//
// A token has OUTPUTS numbers for the sublayer's last product. GATE_PARTS and OUTPUT_NORMS are the
// parts in which gates.cl and output.cl compute a token.
//
// Head h has the keys and queries of key head h % KEY_HEADS if KEYS_IN_TURN, else of
// h / (RECUR_HEADS / KEY_HEADS).
#include "step/records.h"

#ifndef RECUR_HEADS
#define RECUR_HEADS 2
#define KEY_HEADS 1
#define KEY_DIM 16
#define RECUR_VALUE_DIM 16
#define CHANNELS 64
#define CHANNELS_AT 0
#define QUERIES_AT 0
#define KEYS_AT 16
#define VALUES_AT 32
#define GATES_AT 64
#define WRITES_AT 96
#define DECAYS_AT 112
#define HISTORY_AT 512
#define STATE_FLOATS 704
#define OUTPUTS 32
#define GATE_PARTS 2
#define OUTPUT_NORMS 2
#define TAPS 4
#endif

// 1: a delta net; 0: Mamba 2.
#ifndef DELTA
#define DELTA 1
#endif

#ifndef KEYS_IN_TURN
#define KEYS_IN_TURN 0
#endif

#if KEYS_IN_TURN
#define KEY_HEAD(h) ((h) % KEY_HEADS)
#else
#define KEY_HEAD(h) ((h) / (RECUR_HEADS / KEY_HEADS))
#endif

// The heads of a row of `gates`: the decays of all heads, then the strengths of writing.
#define HEADS_PADDED ((RECUR_HEADS + 15) / 16 * 16)

static inline __global const StateRow* mr_state_row(__global const uint* step, uint rows,
                                                    uint index) {
  return (__global const StateRow*)(step + rows) + index;
}
