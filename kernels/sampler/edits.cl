#pragma once
// Edits a row of logits before the draw, from the row's own state: bias, penalties, DRY, no-repeat
// n-gram, allowed ids, bad words. All but allowed ids touch a few tokens each, so one work-item
// does the edits, with the same code in every variant.
//
// A state is a block of words in `states`. The host builds it when a sequence takes its slot, and
// this file updates it token by token. state.h declares the header, whose offsets tell where the
// parts begin:
//
//   header | bias ids, biases | allowed ids | bad words | breakers | DRY penalties | history |
//   tables | scratch: DRY's repeats, the log of edits
//
// A table is ordered by id. So its words depend on the window alone, not on the updates before, and
// equal those that the host builds from the history.
// Limit: loads and stores that depend on each other, some hundred per row, by one work-item.
#include "sampler/row.cl"
#include "sampler/state.h"

// What stands at an offset of a state.
#define SAMPLER_PART(state, offset) ((__global uint*)(state) + (offset))

typedef struct {
  __global float* row;
  __global uint* log;
  uint logged;
  int keep;  // whether edits are logged
} editor_t;

void sampler_edit(editor_t* e, uint id, float value) {
  if (e->keep) {
    e->log[2 * e->logged] = id;
    e->log[2 * e->logged + 1] = as_uint(e->row[id]);
    ++e->logged;
  }
  e->row[id] = value;
}

// Returns the model's own logit of a token that was drawn: its value before its first edit.
float sampler_unedited(const editor_t* e, uint id) {
  for (uint i = 0; i < e->logged; ++i)
    if (e->log[2 * i] == id) return as_float(e->log[2 * i + 1]);
  return e->row[id];
}

// Returns the place of a token in a table, or the place where it would be inserted.
uint sampler_table_find(__global const uint* pairs, uint count, uint id) {
  uint low = 0, high = count;
  while (low < high) {
    const uint middle = (low + high) / 2;
    if (pairs[2 * middle] < id) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low;
}

// Returns the address of a token's value, and inserts a new token with the value 0.
__global uint* sampler_table_at(__global uint* pairs, __global uint* count, uint id) {
  const uint at = sampler_table_find(pairs, *count, id);
  if (at == *count || pairs[2 * at] != id) {
    for (uint i = 2 * *count; i > 2 * at; --i) pairs[i + 1] = pairs[i - 1];
    pairs[2 * at] = id;
    pairs[2 * at + 1] = 0;
    ++*count;
  }
  return pairs + 2 * at + 1;
}

void sampler_table_drop(__global uint* pairs, __global uint* count, uint id) {
  const uint at = sampler_table_find(pairs, *count, id);
  if (--pairs[2 * at + 1] > 0) return;
  --*count;
  for (uint i = 2 * at; i < 2 * *count; ++i) pairs[i] = pairs[i + 2];
  pairs[2 * *count] = 0;  // leaves no trace of the removed pair
  pairs[2 * *count + 1] = 0;
}

// Adds a drawn token to the history and the tables.
void sampler_absorb(__global StateHeader* state, uint id) {
  __global uint* history = SAMPLER_PART(state, state->history);
  const uint position = state->count++;
  history[position] = id;
  for (uint t = 0; t < state->tables; ++t) {
    __global StateTable* table = state->table + t;
    __global uint* pairs = SAMPLER_PART(state, table->pairs);
    const uint window = table->window;
    if (window > 0 && position - table->first >= window)
      sampler_table_drop(pairs, &table->count, history[position - window]);
    ++*sampler_table_at(pairs, &table->count, id);
  }
}

void sampler_bias(editor_t* e, __global const StateHeader* state) {
  const uint count = state->bias_count;
  __global const uint* ids = SAMPLER_PART(state, state->bias);
  for (uint i = 0; i < count; ++i)
    sampler_edit(e, ids[i], e->row[ids[i]] + as_float(ids[count + i]));
}

void sampler_penalties(editor_t* e, __global const StateHeader* state) {
  if (state->repetition != 1.0f) {
    __global const StateTable* table = state->table + state->repetition_table;
    __global const uint* pairs = SAMPLER_PART(state, table->pairs);
    for (uint i = 0; i < table->count; ++i) {
      const float x = e->row[pairs[2 * i]];
      sampler_edit(e, pairs[2 * i],
                   x > 0.0f ? x * state->repetition_inverse : x * state->repetition);
    }
  }
  if (state->presence != 0.0f) {
    __global const StateTable* table = state->table + state->presence_table;
    __global const uint* pairs = SAMPLER_PART(state, table->pairs);
    for (uint i = 0; i < table->count; ++i)
      sampler_edit(e, pairs[2 * i], e->row[pairs[2 * i]] - state->presence);
  }
  if (state->frequency != 0.0f) {
    __global const StateTable* table = state->table + state->frequency_table;
    __global const uint* pairs = SAMPLER_PART(state, table->pairs);
    for (uint i = 0; i < table->count; ++i) {
      const float lost = convert_float(pairs[2 * i + 1]) * state->frequency;
      sampler_edit(e, pairs[2 * i], e->row[pairs[2 * i]] - lost);
    }
  }
}

int sampler_breaks(__global const StateHeader* state, uint id) {
  __global const uint* breakers = SAMPLER_PART(state, state->breakers);
  for (uint i = 0; i < state->breaker_count; ++i)
    if (breakers[i] == id) return 1;
  return 0;
}

// Finds, for each token that would extend a repeat of the history's end, the longest such repeat.
uint sampler_repeats(__global const StateHeader* state, __global uint* repeats) {
  __global const uint* h = SAMPLER_PART(state, state->history);
  const uint count = state->count, allowed = state->dry_allowed;
  const uint start = count - min(count, state->dry_window);
  const uint longest = min(count - start, state->dry_longest);
  uint reach = 0;  // the number of tokens after the last breaker
  while (reach < longest && !sampler_breaks(state, h[count - 1 - reach])) ++reach;
  uint found = 0;
  if (reach < allowed) return found;
  __global uint* number = repeats;
  __global uint* pairs = repeats + 1;
  *number = 0;
  for (uint i = start + 1; i < count; ++i) {
    if (h[i - 1] != h[count - 1]) continue;
    uint length = 1;
    while (length < reach && i - start > length && h[i - 1 - length] == h[count - 1 - length])
      ++length;
    if (length < allowed || sampler_breaks(state, h[i])) continue;
    __global uint* best = sampler_table_at(pairs, number, h[i]);
    *best = max(*best, length);
  }
  return *number;
}

void sampler_dry(editor_t* e, __global StateHeader* state) {
  const uint allowed = state->dry_allowed;
  if (allowed == 0 || state->count == 0) return;
  __global uint* repeats = SAMPLER_PART(state, state->dry_repeats);
  __global const uint* penalties = SAMPLER_PART(state, state->dry_penalties);
  const uint found = sampler_repeats(state, repeats);
  for (uint i = 0; i < found; ++i) {
    const uint id = repeats[1 + 2 * i], length = repeats[2 + 2 * i];
    sampler_edit(e, id, e->row[id] - as_float(penalties[length - allowed]));
  }
}

// The edits below only rule out tokens. These are never drawn, so the log does not need them.
void sampler_no_repeat(__global float* row, __global const StateHeader* state) {
  const uint size = state->ngram, count = state->count;
  __global const uint* h = SAMPLER_PART(state, state->history);
  if (size == 0) return;
  for (uint end = size - 1; end < count; ++end) {
    uint same = 0;
    while (same + 1 < size && h[end - 1 - same] == h[count - 1 - same]) ++same;
    if (same + 1 == size) row[h[end]] = -INFINITY;
  }
}

void sampler_allow(__global float* row, uint vocab, __global const StateHeader* state) {
  const uint count = state->allowed_count;
  if (count == 0) return;
  __global const uint* ids = SAMPLER_PART(state, state->allowed);  // ascending
  uint id = 0;
  for (uint i = 0; i < count; ++i) {
    while (id < ids[i]) row[id++] = -INFINITY;
    id = ids[i] + 1;
  }
  while (id < vocab) row[id++] = -INFINITY;
}

void sampler_bad_words(__global float* row, __global const StateHeader* state) {
  __global const uint* words = SAMPLER_PART(state, state->bad_words);
  __global const uint* h = SAMPLER_PART(state, state->history);
  const uint count = state->count, end = state->bad_words_size;
  for (uint at = 0; at < end; at += words[at] + 1) {
    const uint length = words[at];
    if (length > count + 1) continue;
    uint same = 0;
    while (same + 1 < length && words[at + 1 + same] == h[count + 1 - length + same]) ++same;
    if (same + 1 == length) row[words[at + length]] = -INFINITY;
  }
}

void sampler_apply_state(editor_t* e, uint vocab, __global StateHeader* state) {
  if (state->log > 0) {
    e->log = SAMPLER_PART(state, state->log);
    e->keep = 1;
  }
  sampler_bias(e, state);
  sampler_penalties(e, state);
  sampler_dry(e, state);
  sampler_no_repeat(e->row, state);
  sampler_allow(e->row, vocab, state);
  sampler_bad_words(e->row, state);
}
