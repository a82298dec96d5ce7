// The sampler's walks over a row of logits by ROW_ITEMS work-items, one token at a time each.
// walks.cl says what each returns.
#include "common/prelude.cl"
#include "sampler/group.cl"
#include "sampler/row.cl"
#include "sampler/sample.cl"

#define EACH_ID(id) uint id = ROW_ITEM; id < vocab; id += ROW_ITEMS

// Returns a number whose order is that of the tokens: larger logits first, then smaller ids. 0
// stands for no token.
ulong sampler_rank(float logit, uint id) { return (ulong)sampler_key(logit) << 32 | ~id; }

#if ROW_ITEMS > 1
// Lists the tokens of at least this rank in any order, up to SAMPLER_BINS of them, and returns
// their number.
uint sampler_group_list(__global const float* row, uint vocab, ulong least,
                        __global ulong* list GROUP_PARAMETER) {
  volatile __local uint* const count = (volatile __local uint*)space;
  GROUP_SYNC();
  if (ROW_ITEM == 0) *count = 0;
  GROUP_SYNC();
  for (EACH_ID(id)) {
    const ulong rank = sampler_rank(row[id], id);
    if (rank < least) continue;
    const uint at = atomic_inc(count);
    if (at < SAMPLER_BINS) list[at] = rank;
  }
  GROUP_SYNC();
  return *count;
}
#endif

scan_t sampler_scan(__global const float* row, uint vocab GROUP_PARAMETER) {
  ulong best = 0, bad = 0;
  for (EACH_ID(id)) {
    const float x = row[id];
    if (isnan(x) || x == INFINITY) {
      bad = 1;
    } else {
      best = max(best, sampler_rank(x, id));
    }
  }
  scan_t s = {-INFINITY, 0, (uint)sampler_group_max(bad GROUP)};
  best = sampler_group_max(best GROUP);
  if (best == 0) return s;
  s.argmax = ~(uint)best;
  s.max = row[s.argmax];
  return s;
}

ulong sampler_mass(__global const float* row, uint vocab, filter_t f GROUP_PARAMETER) {
  ulong sum = 0;
  for (EACH_ID(id))
    if (sampler_survives(f, row[id], id)) sum += sampler_weight(sampler_y(f, row[id]));
  return sampler_group_sum(sum GROUP);
}

void sampler_places(__global const float* row, uint vocab, filter_t f, int by_mass,
                    __global ulong* bins GROUP_PARAMETER) {
  for (EACH_ID(id)) {
    if (!sampler_survives(f, row[id], id)) continue;
    const float y = sampler_y(f, row[id]);
    sampler_group_add(bins + sampler_place(y), by_mass ? sampler_weight(y) : 1);
  }
  GROUP_SYNC();
}

void sampler_histogram(__global const float* row, uint vocab, filter_t f, uint place, uint prefix,
                       uint shift, int by_mass, __global ulong* bins GROUP_PARAMETER) {
  for (EACH_ID(id)) {
    const uint key = sampler_key(row[id]);
    const float y = sampler_y(f, row[id]);
    if (sampler_place(y) != place || (shift < 24 && key >> (shift + 8) != prefix)) continue;
    if (!sampler_survives(f, row[id], id)) continue;
    sampler_group_add(bins + ((key >> shift) & 255u), by_mass ? sampler_weight(y) : 1);
  }
  GROUP_SYNC();
}

// Returns the work-item's range of ids, for walks that count along the ids.
uint2 sampler_stretch(uint vocab) {
  const uint each = (vocab + ROW_ITEMS - 1) / ROW_ITEMS;
  const uint from = min(ROW_ITEM * each, vocab);
  return (uint2)(from, min(from + each, vocab));
}

uint sampler_nth(__global const float* row, uint vocab, uint key, ulong n GROUP_PARAMETER) {
  const uint2 own = sampler_stretch(vocab);
  ulong count = 0;
  for (uint id = own.x; id < own.y; ++id)
    if (sampler_key(row[id]) == key) ++count;
  ulong at = sampler_group_before(count GROUP);
  uint found = 0;
  if (at < n && at + count >= n) {
    for (uint id = own.x; id < own.y && found == 0; ++id)
      if (sampler_key(row[id]) == key && ++at == n) found = id + 1;
  }
  found = (uint)sampler_group_max(found GROUP);
  return found == 0 ? vocab : found;
}

void sampler_put(uint at, ulong rank, __global const float* row, uint vocab, __global uint* ids,
                 __global float* values) {
  const uint id = min(~(uint)rank, vocab - 1);
  ids[at] = id;
  values[at] = row[id];
}

// One pass for each token of the list.
void sampler_top_by_passes(__global const float* row, uint vocab, uint n, __global uint* ids,
                           __global float* values GROUP_PARAMETER) {
  ulong last = ~0ul;
  for (uint i = 0; i < n; ++i) {
    ulong next = 0;
    for (EACH_ID(id)) {
      const ulong rank = sampler_rank(row[id], id);
      if (rank < last) next = max(next, rank);
    }
    last = sampler_group_max(next GROUP);
    if (ROW_ITEM == 0) sampler_put(i, last, row, vocab, ids, values);
  }
  GROUP_SYNC();
}

// A group needs two passes: n work-items have a token of at least the n-th largest of their best
// ones, so all of the list are among the tokens from there on. These are few, unless the best ones
// crowd in the shares of a few work-items.
void sampler_top(__global const float* row, uint vocab, uint n, __global uint* ids,
                 __global float* values, __global ulong* bins GROUP_PARAMETER) {
#if ROW_ITEMS > 1
  ulong best = 0;
  for (EACH_ID(id)) best = max(best, sampler_rank(row[id], id));
  const ulong least = sampler_group_nth(best, n GROUP);
  const uint found = least > 0 ? sampler_group_list(row, vocab, least, bins GROUP) : ~0u;
  if (found <= SAMPLER_BINS) {
    for (uint i = ROW_ITEM; i < found; i += ROW_ITEMS) {
      uint before = 0;
      for (uint j = 0; j < found; ++j) before += bins[j] > bins[i] ? 1u : 0u;
      if (before < n) sampler_put(before, bins[i], row, vocab, ids, values);
    }
    GROUP_SYNC();
    return;
  }
#endif
  sampler_top_by_passes(row, vocab, n, ids, values GROUP);
}

uint sampler_noisy_argmax(__global const float* row, uint vocab, filter_t f, uint position,
                          uint sample, uint2 seed GROUP_PARAMETER) {
  ulong best = 0;
  for (EACH_ID(id)) {
    if (!sampler_survives(f, row[id], id)) continue;
    uint w[4];
    sampler_philox(id / 64 * 16 + id % 16, position, sample, 0, seed, &w[0], &w[1], &w[2], &w[3]);
    const float value = sampler_y(f, row[id]) + sampler_gumbel(w[id / 16 % 4]);
    if (value > -INFINITY) best = max(best, sampler_rank(value, id));
  }
  best = sampler_group_max(best GROUP);
  return best == 0 ? vocab : ~(uint)best;
}

ulong sampler_spread(__global const float* row, uint vocab, filter_t f GROUP_PARAMETER) {
  ulong sum = 0;
  for (EACH_ID(id)) {
    const float y = sampler_y(f, row[id]);
    if (y >= -30.0f && sampler_survives(f, row[id], id))
      sum += convert_ulong_rtz(sampler_exp(y) * -y * 1.09951163e12f);
  }
  return sampler_group_sum(sum GROUP);
}

void sampler_nearness(__global const float* row, uint vocab, filter_t f, float middle, uint prefix,
                      uint shift, __global ulong* bins GROUP_PARAMETER) {
  for (EACH_ID(id)) {
    if (!sampler_survives(f, row[id], id)) continue;
    const float y = sampler_y(f, row[id]);
    const uint key = as_uint(fabs(y + middle));
    if (shift < 24 && key >> (shift + 8) != prefix) continue;
    sampler_group_add(bins + ((key >> shift) & 255u), sampler_weight(y));
  }
  GROUP_SYNC();
}

// Returns the weight of a survivor at exactly this distance from the middle; 0 for others.
ulong sampler_weight_at(filter_t f, float logit, uint id, float middle, uint key) {
  const float y = sampler_y(f, logit);
  const int counts = as_uint(fabs(y + middle)) == key && sampler_survives(f, logit, id);
  return counts ? sampler_weight(y) : 0;
}

uint sampler_nearness_bound(__global const float* row, uint vocab, filter_t f, float middle,
                            uint key, ulong target GROUP_PARAMETER) {
  const uint2 own = sampler_stretch(vocab);
  ulong weights = 0;
  for (uint id = own.x; id < own.y; ++id) weights += sampler_weight_at(f, row[id], id, middle, key);
  ulong sum = sampler_group_before(weights GROUP);
  uint found = 0;
  if (sum < target && sum + weights >= target) {
    for (uint id = own.x; id < own.y && found == 0; ++id) {
      sum += sampler_weight_at(f, row[id], id, middle, key);
      if (sum >= target) found = id + 1;
    }
  }
  found = (uint)sampler_group_max(found GROUP);
  return found == 0 ? vocab : found;
}

void sampler_keep_near(__global float* row, uint vocab, filter_t f, float middle, uint key,
                       uint bound GROUP_PARAMETER) {
  GROUP_SYNC();
  for (EACH_ID(id)) {
    const uint own = as_uint(fabs(sampler_y(f, row[id]) + middle));
    const int near = own < key || (own == key && id < bound);
    if (!near || !sampler_survives(f, row[id], id)) row[id] = -INFINITY;
  }
  GROUP_SYNC();
}

uint sampler_last_above(__global const float* row, uint vocab, filter_t f,
                        ulong target GROUP_PARAMETER) {
  ulong last = 0;
  for (EACH_ID(id)) {
    if (!sampler_survives(f, row[id], id)) continue;
    if (sampler_weight(sampler_y(f, row[id])) < target) continue;
    last = max(last, ~sampler_rank(row[id], id));
  }
  last = sampler_group_max(last GROUP);
  return last == 0 ? vocab : (uint)last;
}

void sampler_drop_before(__global float* row, uint vocab, uint key, uint before GROUP_PARAMETER) {
  GROUP_SYNC();
  for (EACH_ID(id)) {
    const uint own = sampler_key(row[id]);
    if (own > key || (own == key && id < before)) row[id] = -INFINITY;
  }
  GROUP_SYNC();
}
