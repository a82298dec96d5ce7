// One work-item a row of logits: draws the next token, or judges a given one, and gathers the
// logprobs that were asked for. Nothing else leaves the device.
//
//   logits  [rows][stride] float, the first `vocab` of a row valid; banned ids are overwritten
//   tasks   [rows][16] words:
//            0 TASK_ flags       4 sample             8 top_k, 0: off         12 banned count
//            1 slot in ids       5 seed, low word     9 top_p * 2^32, low     13 top n
//            2 token to judge    6 seed, high word   10 same, high word       14 offset of top n
//            3 position drawn    7 1 / temperature   11 offset in banned      15 min-p, 0: off
//   banned  ids that must not be drawn
//   ids     [slots] receives the drawn id
//   out     [rows][4] words: id, RESULT_ flags, logprob, STAGE_ bits of the work that was done;
//           then, from `top_at` on, the ids of the n likeliest tokens of each task at its offset,
//           and as many words later, `top_count`, their logprobs
//   bins    [rows][256] working space
//
// Order: bans, temperature, top-k, top-p, min-p, draw. With temperature 0 (greedy) the largest
// logit wins and the filters are off; its processed logprobs are those of temperature 1 after bans.

// Narrows the survivors to the shortest beginning of the order that holds `target` of them, or,
// by mass, weights of `target` together. target >= 1, and no more than all survivors have.
filter_t sampler_narrow(__global const float* row, uint vocab, filter_t f, ulong target,
                        int by_mass, __global ulong* bins) {
  for (uint bin = 0; bin < 256; ++bin) bins[bin] = 0;
  sampler_places(row, vocab, f, by_mass, bins);
  uint place = 0;
  while (place < 255 && bins[place] < target) target -= bins[place++];
  uint prefix = 0;
  for (uint level = 0; level < 4; ++level) {
    const uint shift = 24 - 8 * level;
    for (uint bin = 0; bin < 256; ++bin) bins[bin] = 0;
    sampler_histogram(row, vocab, f, place, prefix, shift, by_mass, bins);
    uint bin = 255;
    while (bin > 0 && bins[bin] < target) target -= bins[bin--];
    prefix = prefix << 8 | bin;
  }
  const ulong each = by_mass ? sampler_weight(sampler_y(f, sampler_unkey(prefix))) : 1;
  const uint bound = sampler_nth(row, vocab, prefix, (target + each - 1) / each);
  f.bound = prefix == f.key ? min(f.bound, bound) : bound;
  f.key = prefix;
  return f;
}

filter_t sampler_filter(__global const float* row, uint vocab, filter_t f,
                        __global const uint* task, __global ulong* bins, uint* stages) {
  const uint top_k = task[8];
  const ulong top_p = (ulong)task[10] << 32 | task[9];
  if (top_k > 0 && top_k < vocab) {
    f = sampler_narrow(row, vocab, f, top_k, 0, bins);
    *stages |= STAGE_FILTER;
  }
  if (top_p < 1ul << 32) {
    const ulong mass = sampler_mass(row, vocab, f);
    const ulong target = (mass >> 32) * top_p + (((mass & 0xffffffffu) * top_p) >> 32);
    f = sampler_narrow(row, vocab, f, max(target, 1ul), 1, bins);
    *stages |= STAGE_FILTER;
  }
  const float min_p = as_float(task[15]);
  if (min_p > 0.0f) f.least = sampler_log(min_p);
  return f;
}

// Turns the logits of the top list into logprobs under f.
void sampler_finish_top(filter_t f, float log_sum, uint n, __global const uint* ids,
                        __global float* values) {
  for (uint i = 0; i < n; ++i)
    values[i] = sampler_survives(f, values[i], ids[i]) ? sampler_y(f, values[i]) - log_sum
                                                       : -INFINITY;
}

// The logprob of one token and the top list, under f.
float sampler_logprobs(__global const float* row, uint vocab, filter_t f, uint id, uint n,
                       __global uint* ids, __global float* values, uint* stages) {
  const float log_sum = sampler_log_sum(sampler_mass(row, vocab, f));
  *stages |= STAGE_SUM;
  if (n > 0) {
    sampler_top(row, vocab, n, ids, values);
    sampler_finish_top(f, log_sum, n, ids, values);
    *stages |= STAGE_TOP;
  }
  if (id >= vocab) return log_sum;  // not drawn yet: the caller subtracts
  return sampler_survives(f, row[id], id) ? sampler_y(f, row[id]) - log_sum : -INFINITY;
}

void sampler_result(__global uint* out, uint id, uint flags, float logprob, uint stages) {
  out[0] = id;
  out[1] = flags;
  out[2] = as_uint(logprob);
  out[3] = stages;
}

__kernel void sample(__global float* logits, uint stride, uint vocab, __global const uint* tasks,
                     __global const uint* banned, __global uint* ids, __global uint* out,
                     uint top_at, uint top_count, __global ulong* bins) {
  const uint index = (uint)get_global_id(0);
  __global float* row = logits + (ulong)index * stride;
  __global const uint* task = tasks + index * TASK_WORDS;
  const uint flags = task[0], n = task[13];
  __global uint* result = out + index * RESULT_WORDS;
  __global ulong* work = bins + (ulong)index * 256;
  __global uint* top_ids = out + top_at + task[14];
  __global float* top_values = (__global float*)(top_ids + top_count);
  uint stages = 0;

  scan_t s = sampler_scan(row, vocab);
  if (s.bad || s.max == -INFINITY) {
    sampler_result(result, 0, s.bad ? RESULT_BAD : RESULT_NONE, NAN, stages);
    if (flags & TASK_DRAW) ids[task[1]] = 0;
    return;
  }
  const filter_t model = sampler_everyone(s.max, 1.0f, vocab);
  if (!(flags & TASK_DRAW)) {
    const float judged =
        sampler_logprobs(row, vocab, model, task[2], n, top_ids, top_values, &stages);
    sampler_result(result, task[2], 0, judged, stages);
    return;
  }

  const int raw = (flags & TASK_LOGPROB) && !(flags & TASK_PROCESSED);
  float log_sum = 0.0f;
  if (raw) log_sum = sampler_logprobs(row, vocab, model, vocab, n, top_ids, top_values, &stages);

  if (task[12] > 0) {
    for (uint i = 0; i < task[12]; ++i) row[banned[task[11] + i]] = -INFINITY;
    s = sampler_scan(row, vocab);
    if (s.max == -INFINITY) {
      sampler_result(result, 0, RESULT_NONE, NAN, stages);
      ids[task[1]] = 0;
      return;
    }
  }
  uint id = s.argmax;
  filter_t f = sampler_everyone(s.max, 1.0f, vocab);
  if (!(flags & TASK_GREEDY)) {
    f.inverse = as_float(task[7]);
    f = sampler_filter(row, vocab, f, task, work, &stages);
    id = sampler_noisy_argmax(row, vocab, f, task[3], task[4], (uint2)(task[5], task[6]));
    stages |= STAGE_NOISE;
  }
  ids[task[1]] = id;
  float logprob = NAN;
  if (raw) {
    logprob = sampler_y(model, row[id]) - log_sum;
  } else if (flags & TASK_LOGPROB) {
    logprob = sampler_logprobs(row, vocab, f, id, n, top_ids, top_values, &stages);
  }
  sampler_result(result, id, 0, logprob, stages);
}
