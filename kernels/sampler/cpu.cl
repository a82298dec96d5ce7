// The sampler's walks over a row of logits, 16 tokens at a time. The results equal those of
// generic.cl bit for bit: maxima and integer sums do not depend on order, and math.cl gives the
// same values in both widths. Whole vectors that cannot change the result are skipped.
#include "sampler/row.cl"
#include "sampler/sample.cl"

#include "sampler/vector.cl"
#include "sampler/math.cl"

#define LANES 16u

// 16 floats at any address of floats: one move, where PoCL's vload16 and vstore16 take four.
typedef float16 sampler_floats __attribute__((aligned(4)));

float16 sampler_whole(__global const float* row) { return *(__global const sampler_floats*)row; }

float16 sampler_load(__global const float* row, uint base, uint vocab) {
  if (base + LANES <= vocab) return sampler_whole(row + base);
  float lanes[16];
  for (uint i = 0; i < LANES; ++i) lanes[i] = base + i < vocab ? row[base + i] : -INFINITY;
  return vload16(0, lanes);
}

uint16 sampler_ids(uint base) {
  return base + (uint16)(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
}

int16 sampler_survives_16(filter_t f, float16 x, float16 y, uint16 ids, uint vocab) {
  const uint16 key = sampler_key_16(x);
  return (key > f.key || (key == f.key && ids < f.bound)) && y >= f.least && ids < vocab;
}

float sampler_max_lane(float16 v) {
  const float8 a = fmax(v.lo, v.hi);
  const float4 b = fmax(a.lo, a.hi);
  const float2 c = fmax(b.lo, b.hi);
  return fmax(c.x, c.y);
}

uint sampler_min_lane(uint16 v) {
  const uint8 a = min(v.lo, v.hi);
  const uint4 b = min(a.lo, a.hi);
  const uint2 c = min(b.lo, b.hi);
  return min(c.x, c.y);
}

ulong sampler_sum_lanes(ulong8 v) {
  const ulong4 a = v.lo + v.hi;
  const ulong2 b = a.lo + a.hi;
  return b.x + b.y;
}

scan_t sampler_scan(__global const float* row, uint vocab) {
  float16 best = (float16)(-INFINITY);
  uint16 where = (uint16)(0);
  int16 bad = (int16)(0);
  for (uint base = 0; base < vocab; base += LANES) {
    const float16 x = sampler_load(row, base, vocab);
    bad |= isnan(x) | (x == INFINITY);
    const int16 better = x > best;
    best = select(best, x, better);
    where = select(where, sampler_ids(base), better);
  }
  scan_t s;
  s.max = sampler_max_lane(best);
  s.argmax = sampler_min_lane(select((uint16)(vocab), where, best == s.max));
  s.bad = any(bad) ? 1 : 0;
  if (s.max == -INFINITY) s.argmax = 0;
  return s;
}

ulong8 sampler_weight_8(float8 e) { return convert_ulong8_rtz(e * 1.09951163e12f); }

// Returns the sum of the survivors' weights; with `spread`, of weights times -y.
ulong sampler_total(__global const float* row, uint vocab, filter_t f, int spread) {
  ulong8 sum = (ulong8)(0);
  for (uint base = 0; base < vocab; base += LANES) {
    const float16 x = sampler_load(row, base, vocab);
    const float16 y = (x - f.max) * f.inverse;
    const int16 in = sampler_survives_16(f, x, y, sampler_ids(base), vocab) && y >= -30.0f;
    if (!any(in)) continue;
    float16 e = sampler_exp_16(y);
    if (spread) e = e * -y;
    e = select((float16)(0.0f), e, in);
    sum += sampler_weight_8(e.lo) + sampler_weight_8(e.hi);
  }
  return sampler_sum_lanes(sum);
}

// Returns the sum of all tokens' weights where no filter applies, which every row with logprobs
// needs. A weight's upper and lower 20 bits are summed apart in 32 bits, which hold WEIGHTS of
// them. The steps are those of sampler_exp, but powers of two go into the exponent: TIMES_2
// multiplies exp(y) by 2^20 or 2^40.
#define WEIGHTS 2048u
#define TIMES_2(bits, n) as_float16((bits) + ((n) << 23))
ulong sampler_total_of_all(__global const float* row, uint vocab, filter_t f) {
  const float16 magic = (float16)(12582912.0f);
  ulong high = 0, low = 0;
  for (uint first = 0; first < vocab; first += WEIGHTS * LANES) {
    const uint end = min(vocab, first + WEIGHTS * LANES);
    uint16 highs = (uint16)(0), lows = (uint16)(0);
    for (uint base = first; base < end; base += LANES) {
      const float16 x = (sampler_load(row, base, vocab) - f.max) * f.inverse;
      const float16 y = select(x, (float16)(-30.0f), x < -30.0f);  // the weight is 0 from there on
      const float16 t = fma(y, (float16)(1.44269504f), magic);
      const float16 n = t - magic;
      const int16 bits = as_int16(sampler_exp_of_16(y, n)) + (as_int16(t) << 23);
      const int16 part = convert_int16(TIMES_2(bits, 20));  // towards 0
      highs += as_uint16(part);
      lows += as_uint16(convert_int16(
          fma(convert_float16(part), (float16)(-1048576.0f), TIMES_2(bits, 40))));
    }
    high += sampler_sum_lanes(convert_ulong8(highs.lo) + convert_ulong8(highs.hi));
    low += sampler_sum_lanes(convert_ulong8(lows.lo) + convert_ulong8(lows.hi));
  }
  return (high << 20) + low;
}

ulong sampler_mass(__global const float* row, uint vocab, filter_t f) {
  if (f.key == 0 && f.least == -INFINITY) return sampler_total_of_all(row, vocab, f);
  return sampler_total(row, vocab, f, 0);
}

ulong sampler_spread(__global const float* row, uint vocab, filter_t f) {
  return sampler_total(row, vocab, f, 1);
}

uint16 sampler_place_16(float16 y) {
  return convert_uint16_rtz(fmin(y * -8.0f, (float16)(255.0f)));
}

// Adds each lane to the bin `where`; a lane without `in` adds 0.
void sampler_scatter(uint16 where, float16 y, int16 in, int by_mass, __global ulong* bins) {
  uint at[16];
  ulong add[16];
  vstore16(where, 0, at);
  if (by_mass) {
    const float16 e = select((float16)(0.0f), sampler_exp_16(y), in);
    vstore8(sampler_weight_8(e.lo), 0, add);
    vstore8(sampler_weight_8(e.hi), 1, add);
  } else {
    const uint16 one = as_uint16(in & 1);
    vstore8(convert_ulong8(one.lo), 0, add);
    vstore8(convert_ulong8(one.hi), 1, add);
  }
  for (uint i = 0; i < LANES; ++i) bins[at[i]] += add[i];
}

void sampler_places(__global const float* row, uint vocab, filter_t f, int by_mass,
                    __global ulong* bins) {
  for (uint base = 0; base < vocab; base += LANES) {
    const float16 x = sampler_load(row, base, vocab);
    const float16 y = (x - f.max) * f.inverse;
    int16 in = sampler_survives_16(f, x, y, sampler_ids(base), vocab);
    if (by_mass) in = in && y >= -28.0f;  // below that the weight is 0
    if (any(in)) sampler_scatter(sampler_place_16(y), y, in, by_mass, bins);
  }
}

void sampler_histogram(__global const float* row, uint vocab, filter_t f, uint place, uint prefix,
                       uint shift, int by_mass, __global ulong* bins) {
  for (uint base = 0; base < vocab; base += LANES) {
    const float16 x = sampler_load(row, base, vocab);
    const float16 y = (x - f.max) * f.inverse;
    int16 in = sampler_place_16(y) == place;
    if (!any(in)) continue;
    const uint16 key = sampler_key_16(x);
    if (shift < 24) in = in && (key >> (shift + 8)) == prefix;
    in = in && sampler_survives_16(f, x, y, sampler_ids(base), vocab);
    if (any(in)) sampler_scatter((key >> shift) & 255u, y, in, by_mass, bins);
  }
}

uint sampler_nth(__global const float* row, uint vocab, uint key, ulong n) {
  for (uint base = 0; base < vocab; base += LANES) {
    const uint16 keys = sampler_key_16(sampler_load(row, base, vocab));
    if (!any(keys == key)) continue;
    for (uint id = base; id < base + LANES && id < vocab; ++id)
      if (sampler_key(row[id]) == key && --n == 0) return id + 1;
  }
  return vocab;
}

#define TOP_LANES (8 * LANES)  // tokens that are skipped at a time
void sampler_top(__global const float* row, uint vocab, uint n, __global uint* ids,
                 __global float* values, __global ulong* bins) {
  uint count = 0;
  for (uint base = 0; base < vocab; base += TOP_LANES) {
    const uint end = min(base + TOP_LANES, vocab);
    if (count == n && end - base == TOP_LANES) {
      const float16 least = (float16)(values[n - 1]);
      int16 more = (int16)(0);
      _Pragma("unroll") for (uint i = 0; i < TOP_LANES; i += LANES)
          more |= sampler_whole(row + base + i) > least;
      if (!any(more)) continue;
    }
    for (uint id = base; id < end; ++id)
      if (count < n || row[id] > values[n - 1])
        count = sampler_insert(ids, values, count, n, row[id], id);
  }
}

// Returns an upper bound of sampler_gumbel for these bits. 1 - u is at most -log(u), so the noise
// is at most -log(1 - u). The number of zeros before the first set bit of ~x gives 1 - u within a
// factor of 2. The bound includes a hundredth for rounding, which adds some millionths.
float16 sampler_most_noise_16(uint16 x) {
  const int16 exponent = as_int16(convert_float16(as_int16(~x >> 1))) >> 23;
  return fma(convert_float16(exponent), (float16)(-0.693147182f), (float16)(109.53f));
}

// Noise never exceeds 23, so a token whose y is more than that below the best value so far cannot
// win, and its bits are not drawn. Nor is noise computed from bits that cannot lift it enough.
uint sampler_noisy_argmax(__global const float* row, uint vocab, filter_t f, uint position,
                          uint sample, uint2 seed) {
  float16 best = (float16)(-INFINITY);
  uint16 winner = (uint16)(vocab);
  float bar = -INFINITY;
  for (uint base = 0; base < vocab; base += 4 * LANES) {
    float16 y[4];
    int16 in[4];
    int16 some = (int16)(0);
    for (uint i = 0; i < 4; ++i) {
      const float16 x = sampler_load(row, min(base + i * LANES, vocab), vocab);
      const uint16 ids = sampler_ids(base + i * LANES);
      y[i] = (x - f.max) * f.inverse;
      in[i] = sampler_survives_16(f, x, y[i], ids, vocab) && y[i] + 23.0f >= bar;
      some |= in[i];
    }
    if (!any(some)) continue;
    uint16 w[4];
    sampler_philox_16(sampler_ids(base / 64 * 16), position, sample, 0, seed, &w[0], &w[1], &w[2],
                      &w[3]);
    for (uint i = 0; i < 4; ++i) {
      if (!any(in[i] && y[i] + sampler_most_noise_16(w[i]) >= bar)) continue;
      const float16 value = y[i] + sampler_gumbel_16(w[i]);
      const int16 better = in[i] && value > best;
      best = select(best, value, better);
      winner = select(winner, sampler_ids(base + i * LANES), better);
    }
    bar = sampler_max_lane(best);
  }
  const float top = sampler_max_lane(best);
  return top == -INFINITY ? vocab : sampler_min_lane(select((uint16)(vocab), winner, best == top));
}

void sampler_nearness(__global const float* row, uint vocab, filter_t f, float middle, uint prefix,
                      uint shift, __global ulong* bins) {
  for (uint base = 0; base < vocab; base += LANES) {
    const float16 x = sampler_load(row, base, vocab);
    const float16 y = (x - f.max) * f.inverse;
    const uint16 key = as_uint16(fabs(y + middle));
    int16 in = sampler_survives_16(f, x, y, sampler_ids(base), vocab) && y >= -28.0f;
    if (shift < 24) in = in && (key >> (shift + 8)) == prefix;
    if (any(in)) sampler_scatter((key >> shift) & 255u, y, in, 1, bins);
  }
}

uint sampler_nearness_bound(__global const float* row, uint vocab, filter_t f, float middle,
                            uint key, ulong target) {
  ulong sum = 0;
  for (uint base = 0; base < vocab; base += LANES) {
    const float16 y = (sampler_load(row, base, vocab) - f.max) * f.inverse;
    if (!any(as_uint16(fabs(y + middle)) == key)) continue;
    for (uint id = base; id < base + LANES && id < vocab; ++id) {
      const float one = sampler_y(f, row[id]);
      if (as_uint(fabs(one + middle)) != key || !sampler_survives(f, row[id], id)) continue;
      sum += sampler_weight(one);
      if (sum >= target) return id + 1;
    }
  }
  return vocab;
}

void sampler_store(__global float* row, uint base, uint vocab, float16 x) {
  if (base + LANES <= vocab) {
    *(__global sampler_floats*)(row + base) = x;
    return;
  }
  float lanes[16];
  vstore16(x, 0, lanes);
  for (uint i = 0; base + i < vocab; ++i) row[base + i] = lanes[i];
}

void sampler_keep_near(__global float* row, uint vocab, filter_t f, float middle, uint key,
                       uint bound) {
  for (uint base = 0; base < vocab; base += LANES) {
    const float16 x = sampler_load(row, base, vocab);
    const float16 y = (x - f.max) * f.inverse;
    const uint16 ids = sampler_ids(base), own = as_uint16(fabs(y + middle));
    const int16 near = own < key || (own == key && ids < bound);
    const int16 in = near && sampler_survives_16(f, x, y, ids, vocab);
    sampler_store(row, base, vocab, select((float16)(-INFINITY), x, in));
  }
}

uint sampler_last_above(__global const float* row, uint vocab, filter_t f, ulong target) {
  uint last = vocab;
  for (uint base = 0; base < vocab; base += LANES) {
    const float16 x = sampler_load(row, base, vocab);
    const float16 y = (x - f.max) * f.inverse;
    const int16 in = sampler_survives_16(f, x, y, sampler_ids(base), vocab) && y >= -28.0f;
    if (!any(in)) continue;
    const float16 e = select((float16)(0.0f), sampler_exp_16(y), in);
    if (!any(sampler_weight_8(e.lo) >= target) && !any(sampler_weight_8(e.hi) >= target)) continue;
    for (uint id = base; id < base + LANES && id < vocab; ++id) {
      if (!sampler_survives(f, row[id], id)) continue;
      if (sampler_weight(sampler_y(f, row[id])) < target) continue;
      if (last == vocab || row[id] <= row[last]) last = id;
    }
  }
  return last;
}

void sampler_drop_before(__global float* row, uint vocab, uint key, uint before) {
  for (uint base = 0; base < vocab; base += LANES) {
    const float16 x = sampler_load(row, base, vocab);
    const uint16 own = sampler_key_16(x);
    const int16 out = own > key || (own == key && sampler_ids(base) < before);
    if (any(out)) sampler_store(row, base, vocab, select(x, (float16)(-INFINITY), out));
  }
}
