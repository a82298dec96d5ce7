#pragma once
// The beginning of the state that the device keeps of a row whose logits are edited. C++ and OpenCL
// C both read this file; `unsigned` has 32 bits in both. Offsets count words from the state's
// beginning; edits.cl says what stands there.

#define STATE_TABLES 3u  // the most that penalties need

#ifdef __cplusplus
namespace millrace::kernels {
#endif

// Counts the tokens of a window of the history: pairs (id, count) by ascending id.
typedef struct StateTable {
  unsigned first;   // the first position counted
  unsigned window;  // 0: all from there on
  unsigned count;   // of pairs
  unsigned pairs;   // offset
} StateTable;

typedef struct StateHeader {
  unsigned count;  // of tokens in the history
  unsigned history;
  unsigned bias_count;
  unsigned bias;     // ids, then what is added
  float repetition;  // factor; 1: off
  float repetition_inverse;
  unsigned repetition_table;
  float presence;  // 0: off
  unsigned presence_table;
  float frequency;  // 0: off
  unsigned frequency_table;
  unsigned tables;         // how many of `table` are in use
  unsigned ngram;          // 0: off
  unsigned allowed_count;  // 0: all
  unsigned allowed;
  unsigned bad_words_size;  // in words: length, ids; length, ids; ...
  unsigned bad_words;
  unsigned dry_allowed;  // 0: off
  unsigned dry_longest;
  unsigned dry_window;
  unsigned breaker_count;
  unsigned breakers;
  unsigned dry_penalties;  // for repeats of dry_allowed to dry_longest tokens
  unsigned dry_repeats;    // scratch: a table of (id, length)
  unsigned log;            // scratch, 0: none; pairs (id, logit before the edit)
  StateTable table[STATE_TABLES];
} StateHeader;

#ifdef __cplusplus
}  // namespace millrace::kernels
#endif
