#pragma once
// Edits a row of logits before the draw, from the row's own state: bias, penalties, DRY, no-repeat
// n-gram, allowed ids, bad words. All but allowed ids touch a few tokens each, so one work-item
// does the edits, with the same code in every variant.
//
// A state is a block of words in `states`. The host builds it when a sequence takes its slot, and
// this file updates it token by token. engine/core/sampler/row_state.hpp defines header and parts;
// offsets count words from the block's beginning:
//
//   header | bias ids, biases | allowed ids | bad words | breakers | DRY penalties | history |
//   tables | scratch: DRY's repeats, the log of edits
//
// A table counts the tokens of a window, as pairs (id, count) by ascending id. So its words depend
// on the window alone, not on the updates before, and equal those that the host builds from the
// history.
// Limit: loads and stores that depend on each other, some hundred per row, by one work-item.
#include "sampler/row.cl"

#define STATE_COUNT 0u  // tokens in the history
#define STATE_HISTORY 1u
#define STATE_BIAS_COUNT 2u
#define STATE_BIAS 3u
#define STATE_REPETITION 4u  // factor, its inverse, table; factor 1: off
#define STATE_PRESENCE 7u    // value, table; 0: off
#define STATE_FREQUENCY 9u   // value, table; 0: off
#define STATE_TABLES 11u     // number of tables
#define STATE_NGRAM 12u
#define STATE_ALLOWED_COUNT 13u
#define STATE_ALLOWED 14u
#define STATE_BAD_WORDS 15u  // the size of: length, ids; length, ids; ...
#define STATE_BAD_WORD 16u
#define STATE_DRY_ALLOWED 17u  // 0: off
#define STATE_DRY_LONGEST 18u
#define STATE_DRY_WINDOW 19u
#define STATE_BREAKER_COUNT 20u
#define STATE_BREAKERS 21u
#define STATE_DRY_PENALTIES 22u  // for repeats of STATE_DRY_ALLOWED to STATE_DRY_LONGEST tokens
#define STATE_DRY_REPEATS 23u    // scratch: a table (id, length)
#define STATE_LOG 24u            // scratch, 0: none; pairs (id, logit before the edit)
#define STATE_TABLE 28u          // each: first position counted, window or 0, count, offset
#define TABLE_WORDS 4u

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
void sampler_absorb(__global uint* state, uint id) {
  __global uint* history = state + state[STATE_HISTORY];
  const uint position = state[STATE_COUNT]++;
  history[position] = id;
  for (uint t = 0; t < state[STATE_TABLES]; ++t) {
    __global uint* table = state + STATE_TABLE + t * TABLE_WORDS;
    __global uint* pairs = state + table[3];
    const uint window = table[1];
    if (window > 0 && position - table[0] >= window)
      sampler_table_drop(pairs, table + 2, history[position - window]);
    ++*sampler_table_at(pairs, table + 2, id);
  }
}

void sampler_bias(editor_t* e, __global const uint* state) {
  const uint count = state[STATE_BIAS_COUNT];
  __global const uint* ids = state + state[STATE_BIAS];
  for (uint i = 0; i < count; ++i)
    sampler_edit(e, ids[i], e->row[ids[i]] + as_float(ids[count + i]));
}

void sampler_penalties(editor_t* e, __global const uint* state) {
  const float factor = as_float(state[STATE_REPETITION]);
  if (factor != 1.0f) {
    const float inverse = as_float(state[STATE_REPETITION + 1]);
    __global const uint* table = state + STATE_TABLE + state[STATE_REPETITION + 2] * TABLE_WORDS;
    for (uint i = 0; i < table[2]; ++i) {
      const uint id = state[table[3] + 2 * i];
      const float x = e->row[id];
      sampler_edit(e, id, x > 0.0f ? x * inverse : x * factor);
    }
  }
  const float presence = as_float(state[STATE_PRESENCE]);
  if (presence != 0.0f) {
    __global const uint* table = state + STATE_TABLE + state[STATE_PRESENCE + 1] * TABLE_WORDS;
    for (uint i = 0; i < table[2]; ++i) {
      const uint id = state[table[3] + 2 * i];
      sampler_edit(e, id, e->row[id] - presence);
    }
  }
  const float frequency = as_float(state[STATE_FREQUENCY]);
  if (frequency != 0.0f) {
    __global const uint* table = state + STATE_TABLE + state[STATE_FREQUENCY + 1] * TABLE_WORDS;
    for (uint i = 0; i < table[2]; ++i) {
      const uint id = state[table[3] + 2 * i];
      const float lost = convert_float(state[table[3] + 2 * i + 1]) * frequency;
      sampler_edit(e, id, e->row[id] - lost);
    }
  }
}

int sampler_breaks(__global const uint* state, uint id) {
  __global const uint* breakers = state + state[STATE_BREAKERS];
  for (uint i = 0; i < state[STATE_BREAKER_COUNT]; ++i)
    if (breakers[i] == id) return 1;
  return 0;
}

// Finds, for each token that would extend a repeat of the history's end, the longest such repeat.
uint sampler_repeats(__global const uint* state, __global uint* repeats) {
  __global const uint* h = state + state[STATE_HISTORY];
  const uint count = state[STATE_COUNT], allowed = state[STATE_DRY_ALLOWED];
  const uint start = count - min(count, state[STATE_DRY_WINDOW]);
  const uint longest = min(count - start, state[STATE_DRY_LONGEST]);
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

void sampler_dry(editor_t* e, __global uint* state) {
  const uint allowed = state[STATE_DRY_ALLOWED];
  if (allowed == 0 || state[STATE_COUNT] == 0) return;
  __global uint* repeats = state + state[STATE_DRY_REPEATS];
  __global const uint* penalties = state + state[STATE_DRY_PENALTIES];
  const uint found = sampler_repeats(state, repeats);
  for (uint i = 0; i < found; ++i) {
    const uint id = repeats[1 + 2 * i], length = repeats[2 + 2 * i];
    sampler_edit(e, id, e->row[id] - as_float(penalties[length - allowed]));
  }
}

// The edits below only rule out tokens. These are never drawn, so the log does not need them.
void sampler_no_repeat(__global float* row, __global const uint* state) {
  const uint size = state[STATE_NGRAM], count = state[STATE_COUNT];
  __global const uint* h = state + state[STATE_HISTORY];
  if (size == 0) return;
  for (uint end = size - 1; end < count; ++end) {
    uint same = 0;
    while (same + 1 < size && h[end - 1 - same] == h[count - 1 - same]) ++same;
    if (same + 1 == size) row[h[end]] = -INFINITY;
  }
}

void sampler_allow(__global float* row, uint vocab, __global const uint* state) {
  const uint count = state[STATE_ALLOWED_COUNT];
  if (count == 0) return;
  __global const uint* ids = state + state[STATE_ALLOWED];  // ascending
  uint id = 0;
  for (uint i = 0; i < count; ++i) {
    while (id < ids[i]) row[id++] = -INFINITY;
    id = ids[i] + 1;
  }
  while (id < vocab) row[id++] = -INFINITY;
}

void sampler_bad_words(__global float* row, __global const uint* state) {
  __global const uint* words = state + state[STATE_BAD_WORD];
  __global const uint* h = state + state[STATE_HISTORY];
  const uint count = state[STATE_COUNT], end = state[STATE_BAD_WORDS];
  for (uint at = 0; at < end; at += words[at] + 1) {
    const uint length = words[at];
    if (length > count + 1) continue;
    uint same = 0;
    while (same + 1 < length && words[at + 1 + same] == h[count + 1 - length + same]) ++same;
    if (same + 1 == length) row[words[at + length]] = -INFINITY;
  }
}

void sampler_apply_state(editor_t* e, uint vocab, __global uint* state) {
  if (state[STATE_LOG] > 0) {
    e->log = state + state[STATE_LOG];
    e->keep = 1;
  }
  sampler_bias(e, state);
  sampler_penalties(e, state);
  sampler_dry(e, state);
  sampler_no_repeat(e->row, state);
  sampler_allow(e->row, vocab, state);
  sampler_bad_words(e->row, state);
}
