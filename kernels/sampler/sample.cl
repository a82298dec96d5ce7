#pragma once
// Draws the next token of a row of logits, or scores a given one, and gathers the logprobs that the
// task asks for. Nothing else leaves the device. Each row has a group of ROW_ITEMS work-items.
//
//   logits  [rows][stride] float, the first `vocab` of a row valid; edits and bans overwrite them
//   tasks   [rows] TaskRecord (task.h)
//   lists   ids that must not be drawn, and ids whose logprobs a task asks for
//   states  one block (edits.cl) for each row with TASK_EDIT
//   ids     [slots] holds the row's last id, and receives the drawn one
//   out     [rows] ResultRecord; then, from word `top_at` on, the ids of the likeliest tokens of
//           each task at its offset, `top_count` words later their logprobs, and after those the
//           listed ids' logprobs
//   bins    [rows][SAMPLER_BINS] working space
//
// Order: edits (edits.cl), bans, temperature, top-k, typical, top-p, min-p, XTC, draw. A forced
// token comes before all of these: nothing else is left to draw, whatever they say. With
// temperature 0 (greedy) the largest logit wins and the filters are off; its processed logprobs are
// those of temperature 1 after edits and bans.
// Limit: memory, one pass over the row, if the task asks only for the likeliest token; otherwise
// vector operations: exponentials for logprobs, noise for a draw.
#include "common/prelude.cl"
#include "sampler/edits.cl"
#include "sampler/row.cl"
#include "sampler/state.h"
#include "sampler/task.h"
#include "sampler/walks.cl"

void sampler_clear(__global ulong* bins) {
  GROUP_SYNC();
  for (uint bin = ROW_ITEM; bin < SAMPLER_BINS; bin += ROW_ITEMS) bins[bin] = 0;
  GROUP_SYNC();
}

// Returns a share of a sum of weights, in units of 2^-32, but at least one weight.
ulong sampler_share(ulong mass, ulong share) {
  return max((mass >> 32) * share + (((mass & 0xffffffffu) * share) >> 32), 1ul);
}

// Narrows the survivors to the fewest first tokens of the order that number `target` or, by mass,
// whose weights reach `target`. target >= 1, and at most what all survivors have.
filter_t sampler_narrow(__global const float* row, uint vocab, filter_t f, ulong target,
                        int by_mass, __global ulong* bins GROUP_PARAMETER) {
  sampler_clear(bins);
  sampler_places(row, vocab, f, by_mass, bins GROUP);
  uint place = 0;
  while (place < 255 && bins[place] < target) target -= bins[place++];
  uint prefix = 0;
  for (uint level = 0; level < 4; ++level) {
    const uint shift = 24 - 8 * level;
    sampler_clear(bins);
    sampler_histogram(row, vocab, f, place, prefix, shift, by_mass, bins GROUP);
    uint bin = 255;
    while (bin > 0 && bins[bin] < target) target -= bins[bin--];
    prefix = prefix << 8 | bin;
  }
  const ulong each = by_mass ? sampler_weight(sampler_y(f, sampler_unkey(prefix))) : 1;
  const uint bound = sampler_nth(row, vocab, prefix, (target + each - 1) / each GROUP);
  f.bound = prefix == f.key ? min(f.bound, bound) : bound;
  f.key = prefix;
  return f;
}

// Keeps the tokens whose information is nearest to the average of the survivors, up to a share of
// the mass; of equally near ones those with smaller ids. The others are ruled out in the row
// itself, and all that are left survive.
filter_t sampler_typical(__global float* row, uint vocab, filter_t f, uint share,
                         __global ulong* bins GROUP_PARAMETER) {
  const ulong mass = sampler_mass(row, vocab, f GROUP);
  ulong target = sampler_share(mass, share);
  // Minus the mean of y, in units of 2^-20. The likeliest token alone has a mass of 2^40.
  const ulong mean = sampler_spread(row, vocab, f GROUP) / (mass >> 20);
  const float middle = convert_float((uint)mean) * 9.53674316e-7f;
  uint prefix = 0;
  for (uint level = 0; level < 4; ++level) {
    const uint shift = 24 - 8 * level;
    sampler_clear(bins);
    sampler_nearness(row, vocab, f, middle, prefix, shift, bins GROUP);
    uint bin = 0;
    while (bin < 255 && bins[bin] < target) target -= bins[bin++];
    prefix = prefix << 8 | bin;
  }
  const uint bound = sampler_nearness_bound(row, vocab, f, middle, prefix, target GROUP);
  sampler_keep_near(row, vocab, f, middle, prefix, bound GROUP);
  return sampler_everyone(sampler_scan(row, vocab GROUP).max, f.inverse, vocab);
}

uint2 sampler_seed(__global const TaskRecord* task) {
  return (uint2)((uint)task->seed, (uint)(task->seed >> 32));
}

// Rules out, with the task's probability, every token whose share reaches the threshold, except the
// least likely of them. Each draw decides once.
void sampler_xtc(__global float* row, uint vocab, filter_t f, __global const TaskRecord* task,
                 uint* stages GROUP_PARAMETER) {
  if (task->xtc_probability == 0) return;
  uint w[4];
  sampler_philox(0, task->position, task->sample, 1, sampler_seed(task), &w[0], &w[1], &w[2],
                 &w[3]);
  if (w[0] >= task->xtc_probability) return;
  const ulong target = sampler_share(sampler_mass(row, vocab, f GROUP), task->xtc_threshold);
  const uint last = sampler_last_above(row, vocab, f, target GROUP);
  if (last < vocab) sampler_drop_before(row, vocab, sampler_key(row[last]), last GROUP);
  *stages |= STAGE_XTC;
}

filter_t sampler_filter(__global float* row, uint vocab, filter_t f,
                        __global const TaskRecord* task, __global ulong* bins,
                        uint* stages GROUP_PARAMETER) {
  const uint top_k = task->top_k;
  const ulong top_p = task->top_p;
  if (top_k > 0 && top_k < vocab) {
    f = sampler_narrow(row, vocab, f, top_k, 0, bins GROUP);
    *stages |= STAGE_FILTER;
  }
  if (task->typical_p > 0) {
    f = sampler_typical(row, vocab, f, task->typical_p, bins GROUP);
    *stages |= STAGE_TYPICAL;
  }
  if (top_p < 1ul << 32) {
    const ulong target = sampler_share(sampler_mass(row, vocab, f GROUP), top_p);
    f = sampler_narrow(row, vocab, f, target, 1, bins GROUP);
    *stages |= STAGE_FILTER;
  }
  if (task->min_p > 0.0f) f.least = sampler_log(task->min_p);
  sampler_xtc(row, vocab, f, task, stages GROUP);
  return f;
}

// The logprobs that a task asks for beside one token's, and where they go.
typedef struct {
  uint top;
  __global uint* top_ids;
  __global float* top_values;
  uint listed;
  __global const uint* listed_ids;
  __global float* listed_values;
} asked_t;

float sampler_logprob(filter_t f, float log_sum, float logit, uint id) {
  return sampler_survives(f, logit, id) ? sampler_y(f, logit) - log_sum : -INFINITY;
}

// Returns the logprob of one token under f, and writes those of the top list and of listed tokens.
float sampler_logprobs(__global const float* row, uint vocab, filter_t f, uint id, asked_t a,
                       __global ulong* bins, uint* stages GROUP_PARAMETER) {
  const float log_sum = sampler_log_sum(sampler_mass(row, vocab, f GROUP));
  *stages |= STAGE_SUM;
  if (a.top > 0) {
    sampler_top(row, vocab, a.top, a.top_ids, a.top_values, bins GROUP);
    for (uint i = ROW_ITEM; i < a.top; i += ROW_ITEMS)
      a.top_values[i] = sampler_logprob(f, log_sum, a.top_values[i], a.top_ids[i]);
    *stages |= STAGE_TOP;
  }
  for (uint i = ROW_ITEM; i < a.listed; i += ROW_ITEMS)
    a.listed_values[i] = sampler_logprob(f, log_sum, row[a.listed_ids[i]], a.listed_ids[i]);
  if (a.listed > 0) *stages |= STAGE_LISTED;
  if (id >= vocab) return log_sum;  // the token is not drawn yet: the caller subtracts this
  return sampler_logprob(f, log_sum, row[id], id);
}

void sampler_result(__global ResultRecord* out, uint id, uint flags, float logprob, uint stages) {
  if (ROW_ITEM != 0) return;
  out->id = id;
  out->flags = flags;
  out->logprob = logprob;
  out->stages = stages;
}

asked_t sampler_asked(__global const TaskRecord* task, __global const uint* lists,
                      __global uint* out, uint top_at, uint top_count) {
  asked_t a;
  a.top = task->top;
  a.top_ids = out + top_at + task->top_at;
  a.top_values = (__global float*)(a.top_ids + top_count);
  a.listed = task->listed_count;
  a.listed_ids = lists + task->listed;
  a.listed_values = (__global float*)(out + top_at + 2 * top_count + task->listed_at);
  return a;
}

__global StateHeader* sampler_state(__global uint* states, __global const TaskRecord* task) {
  return (__global StateHeader*)(states + task->state);
}

// Applies edits and bans, and returns a new scan of the row if there were any.
scan_t sampler_prepare(editor_t* e, uint vocab, __global const TaskRecord* task,
                       __global const uint* lists, __global uint* states, scan_t s,
                       uint* stages GROUP_PARAMETER) {
  if (!(task->flags & TASK_EDIT) && task->banned_count == 0) return s;
  GROUP_SYNC();  // all work-items have read the row before its edits
  if (task->flags & TASK_EDIT) {
    if (ROW_ITEM == 0) sampler_apply_state(e, vocab, sampler_state(states, task));
    *stages |= STAGE_EDIT;
    GROUP_SYNC();
  }
  for (uint i = ROW_ITEM; i < task->banned_count; i += ROW_ITEMS)
    e->row[lists[task->banned + i]] = -INFINITY;
  GROUP_SYNC();
  return sampler_scan(e->row, vocab GROUP);
}

// Leaves one token to draw, and returns a new scan of the row.
scan_t sampler_force(__global float* row, uint vocab, uint target GROUP_PARAMETER) {
  GROUP_SYNC();  // all work-items have read the row before its edits
  for (uint id = ROW_ITEM; id < vocab; id += ROW_ITEMS) row[id] = id == target ? 0.0f : -INFINITY;
  GROUP_SYNC();
  return sampler_scan(row, vocab GROUP);
}

__kernel __attribute__((reqd_work_group_size(ROW_ITEMS, 1, 1)))
void sample(__global float* logits, uint stride, uint vocab, __global const TaskRecord* tasks,
            __global const uint* lists, __global uint* states, __global uint* ids,
            __global uint* out, uint top_at, uint top_count, __global ulong* bins) {
  GROUP_SPACE
  const uint index = (uint)get_group_id(0);
  __global float* row = logits + (ulong)index * stride;
  __global const TaskRecord* task = tasks + index;
  const uint flags = task->flags;
  __global ResultRecord* result = (__global ResultRecord*)out + index;
  __global ulong* own = bins + (ulong)index * SAMPLER_BINS;
  const asked_t asked = sampler_asked(task, lists, out, top_at, top_count);
  uint stages = 0;

  if (ROW_ITEM == 0 && (flags & TASK_ABSORB))
    sampler_absorb(sampler_state(states, task), ids[task->slot]);
  scan_t s = sampler_scan(row, vocab GROUP);
  if (s.bad || s.max == -INFINITY) {
    sampler_result(result, 0, s.bad ? RESULT_BAD : RESULT_NONE, NAN, stages);
    if (ROW_ITEM == 0 && (flags & TASK_DRAW)) ids[task->slot] = 0;
    return;
  }
  const filter_t model = sampler_everyone(s.max, 1.0f, vocab);
  if (!(flags & TASK_DRAW)) {
    const float scored =
        sampler_logprobs(row, vocab, model, task->target, asked, own, &stages GROUP);
    sampler_result(result, task->target, 0, scored, stages);
    return;
  }

  const int raw = (flags & TASK_LOGPROB) && !(flags & TASK_PROCESSED);
  const int forced = flags & TASK_FORCED;
  float log_sum = 0.0f;  // of a forced token: its logprob
  if (raw) {
    const uint known = forced ? task->target : vocab;
    log_sum = sampler_logprobs(row, vocab, model, known, asked, own, &stages GROUP);
  }

  editor_t editor = {row, 0, 0, 0};
  if (forced) {
    s = sampler_force(row, vocab, task->target GROUP);
  } else {
    s = sampler_prepare(&editor, vocab, task, lists, states, s, &stages GROUP);
  }
  if (s.bad || s.max == -INFINITY) {
    sampler_result(result, 0, s.bad ? RESULT_BAD : RESULT_NONE, NAN, stages);
    if (ROW_ITEM == 0) ids[task->slot] = 0;
    return;
  }
  uint id = s.argmax;
  filter_t f = sampler_everyone(s.max, 1.0f, vocab);
  if (!(flags & TASK_GREEDY)) {
    f.inverse = task->inverse_temperature;
    f = sampler_filter(row, vocab, f, task, own, &stages GROUP);
    id = sampler_noisy_argmax(row, vocab, f, task->position, task->sample,
                              sampler_seed(task) GROUP);
    stages |= STAGE_NOISE;
  }
  if (ROW_ITEM == 0) ids[task->slot] = id;
  float logprob = NAN;
  if (raw) {
    logprob = forced ? log_sum : sampler_y(model, sampler_unedited(&editor, id)) - log_sum;
  } else if (flags & TASK_LOGPROB) {
    logprob = sampler_logprobs(row, vocab, f, id, asked, own, &stages GROUP);
  }
  sampler_result(result, id, 0, logprob, stages);
}
