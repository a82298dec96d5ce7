#pragma once
// Which channels of a head rotate together: ROPE_HALVES 0 rotates pairs (2i, 2i+1), 1 rotates
// (i, i + ROPE_DIM/2); channels from ROPE_DIM on stay as they are.
#include "attention/heads.cl"

#ifndef ROPE_DIM
#define ROPE_DIM HEAD_DIM
#endif
#ifndef ROPE_HALVES
#define ROPE_HALVES 0
#endif
