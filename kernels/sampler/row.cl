#pragma once
// The definitions that both variants share: the order of tokens, weights, and survivors.
//
// Order: a token with a larger logit comes first; of equal ones the smaller id. Filters keep the
// first tokens of this order, so two numbers describe the survivors: the key of the last survivor,
// and the id below which tokens with exactly that key survive. min-p adds a bound on y.
//
// y = (logit - largest logit) / temperature, as one subtraction and one product with the inverse.
// weight = floor(exp(y) * 2^40). Sums of weights are exact 64-bit integers, so they depend neither
// on the order of summation nor on the width or the batch. (This holds for up to 2^23 tokens; a
// share below 2^-40 counts as 0.)
#include "common/prelude.cl"
#include "sampler/task.h"

#include "sampler/math.cl"

// The work-items of a row go through the stages together and share local memory. A single work-item
// needs none.
#if ROW_ITEMS == 1
#define GROUP_SPACE
#define GROUP_PARAMETER
#define GROUP
#define GROUP_SYNC()
#else
#define GROUP_SPACE __local ulong space[ROW_ITEMS];
#define GROUP_PARAMETER , __local ulong* space
#define GROUP , space
#define GROUP_SYNC() barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE)
#endif

typedef struct {
  float max;      // largest logit
  float inverse;  // 1 / temperature
  uint key;       // of the last survivor
  uint bound;     // tokens with that key survive below this id
  float least;    // survivors have y >= least
} filter_t;

typedef struct {
  float max;
  uint argmax;  // the smallest id with the largest logit
  uint bad;
} scan_t;

float sampler_unkey(uint key) {
  return as_float(key & 0x80000000u ? key ^ 0x80000000u : ~key);
}

float sampler_y(filter_t f, float logit) { return (logit - f.max) * f.inverse; }

ulong sampler_weight(float y) { return convert_ulong_rtz(sampler_exp(y) * 1.09951163e12f); }

int sampler_survives(filter_t f, float logit, uint id) {
  const uint key = sampler_key(logit);
  return (key > f.key || (key == f.key && id < f.bound)) && sampler_y(f, logit) >= f.least;
}

filter_t sampler_everyone(float max, float inverse, uint vocab) {
  filter_t f;
  f.max = max;
  f.inverse = inverse;
  f.key = 0;
  f.bound = vocab;
  f.least = -INFINITY;
  return f;
}

// Returns a coarse place in the order, in eighths of y: 0 for the likeliest, 255 for all from
// -31.875 down.
uint sampler_place(float y) { return convert_uint_rtz(fmin(y * -8.0f, 255.0f)); }

// Returns the log of a sum of weights, in units of the largest weight.
float sampler_log_sum(ulong sum) {
  const uint zeros = (uint)clz(sum);
  const uint mantissa = (uint)((sum << zeros) >> 40);  // 24 bits, the first of them set
  const float m = convert_float(mantissa) * 1.1920929e-7f;  // in [1, 2)
  const int high = m > 1.41421354f;
  const float e = convert_float(23 - (int)zeros) + (high ? 1.0f : 0.0f);
  return fma(e, 0.693147182f, sampler_log1p((high ? m * 0.5f : m) - 1.0f));
}

// Inserts a token into a list of the likeliest, which holds `count` of at most `n`, and returns the
// new count. Tokens come by ascending id, so a token goes behind equal ones.
uint sampler_insert(__global uint* ids, __global float* values, uint count, uint n, float value,
                    uint id) {
  uint at = count < n ? count : n - 1;
  while (at > 0 && values[at - 1] < value) {
    values[at] = values[at - 1];
    ids[at] = ids[at - 1];
    --at;
  }
  values[at] = value;
  ids[at] = id;
  return count < n ? count + 1 : n;
}
