#pragma once
// The walks over a row of logits that sample.cl consists of. cpu.cl and generic.cl define them, and
// their results are the same bit for bit: each depends on the set of (id, logit) alone, and every
// work-item gets it. A walk that writes a row begins and ends with a barrier: the walk before may
// still read the row, and the next may read the new values.
#include "sampler/row.cl"

// Returns the largest logit, the smallest id that has it, and whether a logit is NaN or +infinity.
scan_t sampler_scan(__global const float* row, uint vocab GROUP_PARAMETER);

// Sums the survivors' weights.
ulong sampler_mass(__global const float* row, uint vocab, filter_t f GROUP_PARAMETER);

// Adds each survivor to the bin of its place: its weight, or 1 without `by_mass`.
void sampler_places(__global const float* row, uint vocab, filter_t f, int by_mass,
                    __global ulong* bins GROUP_PARAMETER);

// Does the same for survivors of one place whose key begins with `prefix`, by the next 8 bits.
void sampler_histogram(__global const float* row, uint vocab, filter_t f, uint place, uint prefix,
                       uint shift, int by_mass, __global ulong* bins GROUP_PARAMETER);

// Returns one past the id of the n-th token (n >= 1) with exactly this key.
uint sampler_nth(__global const float* row, uint vocab, uint key, ulong n GROUP_PARAMETER);

// Writes the n first tokens of the order, and their logits. `bins` is working space.
void sampler_top(__global const float* row, uint vocab, uint n, __global uint* ids,
                 __global float* values, __global ulong* bins GROUP_PARAMETER);

// Returns the survivor with the largest y + noise. The noise of token t comes from word (t / 16)
// mod 4 of the Philox block of counter t / 64 * 16 + t mod 16.
uint sampler_noisy_argmax(__global const float* row, uint vocab, filter_t f, uint position,
                          uint sample, uint2 seed GROUP_PARAMETER);

// Sums weights times -y. Divided by the sum of weights, this is minus the mean of y.
ulong sampler_spread(__global const float* row, uint vocab, filter_t f GROUP_PARAMETER);

// Adds the weights of survivors whose distance from the middle begins with `prefix` to the bin of
// the distance's next 8 bits. Distances are not negative, so their bits have the same order.
void sampler_nearness(__global const float* row, uint vocab, filter_t f, float middle, uint prefix,
                      uint shift, __global ulong* bins GROUP_PARAMETER);

// Returns one past the id at which the weights of survivors at exactly this distance, added in the
// order of ids, reach `target`.
uint sampler_nearness_bound(__global const float* row, uint vocab, filter_t f, float middle,
                            uint key, ulong target GROUP_PARAMETER);

// Rules out the survivors beyond a distance from the middle, and those at it from id `bound` on.
void sampler_keep_near(__global float* row, uint vocab, filter_t f, float middle, uint key,
                       uint bound GROUP_PARAMETER);

// Returns the last survivor in the order whose weight is at least `target`, or `vocab` if there is
// none.
uint sampler_last_above(__global const float* row, uint vocab, filter_t f,
                        ulong target GROUP_PARAMETER);

// Rules out the tokens that come before a token in the order.
void sampler_drop_before(__global float* row, uint vocab, uint key, uint before GROUP_PARAMETER);
