// The sampler's walks over a row of logits, one token at a time: the reference for every variant.
// Contract of each walk: its result depends on the set of (id, logit) alone.

scan_t sampler_scan(__global const float* row, uint vocab) {
  scan_t s = {-INFINITY, 0, 0};
  for (uint id = 0; id < vocab; ++id) {
    const float x = row[id];
    if (isnan(x) || x == INFINITY) s.bad = 1;
    if (x > s.max) {
      s.max = x;
      s.argmax = id;
    }
  }
  return s;
}

ulong sampler_mass(__global const float* row, uint vocab, filter_t f) {
  ulong sum = 0;
  for (uint id = 0; id < vocab; ++id)
    if (sampler_survives(f, row[id], id)) sum += sampler_weight(sampler_y(f, row[id]));
  return sum;
}

// Adds each survivor to the bin of its place: its weight or, without `by_mass`, one.
void sampler_places(__global const float* row, uint vocab, filter_t f, int by_mass,
                    __global ulong* bins) {
  for (uint id = 0; id < vocab; ++id) {
    if (!sampler_survives(f, row[id], id)) continue;
    const float y = sampler_y(f, row[id]);
    bins[sampler_place(y)] += by_mass ? sampler_weight(y) : 1;
  }
}

// The same for survivors of one place whose key begins with `prefix`, by the key's next 8 bits.
void sampler_histogram(__global const float* row, uint vocab, filter_t f, uint place, uint prefix,
                       uint shift, int by_mass, __global ulong* bins) {
  for (uint id = 0; id < vocab; ++id) {
    const uint key = sampler_key(row[id]);
    const float y = sampler_y(f, row[id]);
    if (sampler_place(y) != place || (shift < 24 && key >> (shift + 8) != prefix)) continue;
    if (!sampler_survives(f, row[id], id)) continue;
    bins[(key >> shift) & 255u] += by_mass ? sampler_weight(y) : 1;
  }
}

// One past the id of the n-th token (n >= 1) with this very key.
uint sampler_nth(__global const float* row, uint vocab, uint key, ulong n) {
  for (uint id = 0; id < vocab; ++id)
    if (sampler_key(row[id]) == key && --n == 0) return id + 1;
  return vocab;
}

void sampler_top(__global const float* row, uint vocab, uint n, __global uint* ids,
                 __global float* values) {
  uint count = 0;
  for (uint id = 0; id < vocab; ++id)
    if (count < n || row[id] > values[n - 1])
      count = sampler_insert(ids, values, count, n, row[id], id);
}

// The survivor with the largest y + noise; the noise of token t is word (t / 16) mod 4 of the
// Philox block of counter t / 64 * 16 + t mod 16.
uint sampler_noisy_argmax(__global const float* row, uint vocab, filter_t f, uint position,
                          uint sample, uint2 seed) {
  float best = -INFINITY;
  uint winner = vocab;
  for (uint id = 0; id < vocab; ++id) {
    if (!sampler_survives(f, row[id], id)) continue;
    uint w[4];
    sampler_philox(id / 64 * 16 + id % 16, position, sample, 0, seed, &w[0], &w[1], &w[2], &w[3]);
    const float value = sampler_y(f, row[id]) + sampler_gumbel(w[id / 16 % 4]);
    if (value > best) {
      best = value;
      winner = id;
    }
  }
  return winner;
}

// Weights times -y: their sum over that of the weights is minus the mean of y.
ulong sampler_spread(__global const float* row, uint vocab, filter_t f) {
  ulong sum = 0;
  for (uint id = 0; id < vocab; ++id) {
    const float y = sampler_y(f, row[id]);
    if (y >= -30.0f && sampler_survives(f, row[id], id))
      sum += convert_ulong_rtz(sampler_exp(y) * -y * 1.09951163e12f);
  }
  return sum;
}

// Adds the weights of survivors whose distance from the middle begins with `prefix` to the bin of
// the distance's next 8 bits. Distances are not negative: their bits have their order.
void sampler_nearness(__global const float* row, uint vocab, filter_t f, float middle, uint prefix,
                      uint shift, __global ulong* bins) {
  for (uint id = 0; id < vocab; ++id) {
    if (!sampler_survives(f, row[id], id)) continue;
    const float y = sampler_y(f, row[id]);
    const uint key = as_uint(fabs(y + middle));
    if (shift < 24 && key >> (shift + 8) != prefix) continue;
    bins[(key >> shift) & 255u] += sampler_weight(y);
  }
}

// One past the id at which survivors of this very distance have weights of `target` together.
uint sampler_nearness_bound(__global const float* row, uint vocab, filter_t f, float middle,
                            uint key, ulong target) {
  ulong sum = 0;
  for (uint id = 0; id < vocab; ++id) {
    const float y = sampler_y(f, row[id]);
    if (as_uint(fabs(y + middle)) != key || !sampler_survives(f, row[id], id)) continue;
    sum += sampler_weight(y);
    if (sum >= target) return id + 1;
  }
  return vocab;
}

void sampler_keep_near(__global float* row, uint vocab, filter_t f, float middle, uint key,
                       uint bound) {
  for (uint id = 0; id < vocab; ++id) {
    const uint own = as_uint(fabs(sampler_y(f, row[id]) + middle));
    const int near = own < key || (own == key && id < bound);
    if (!near || !sampler_survives(f, row[id], id)) row[id] = -INFINITY;
  }
}

// The last survivor in the order whose weight is at least `target`; `vocab` where there is none.
uint sampler_last_above(__global const float* row, uint vocab, filter_t f, ulong target) {
  uint last = vocab;
  for (uint id = 0; id < vocab; ++id) {
    if (!sampler_survives(f, row[id], id)) continue;
    if (sampler_weight(sampler_y(f, row[id])) < target) continue;
    if (last == vocab || row[id] <= row[last]) last = id;
  }
  return last;
}

// Rules out what stands before a token in the order.
void sampler_drop_before(__global float* row, uint vocab, uint key, uint before) {
  for (uint id = 0; id < vocab; ++id) {
    const uint own = sampler_key(row[id]);
    if (own > key || (own == key && id < before)) row[id] = -INFINITY;
  }
}
