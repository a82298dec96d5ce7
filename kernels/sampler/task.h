#pragma once
// A row's task and result as host and device share them. C++ and OpenCL C both read this file;
// `unsigned` has 32 bits and `unsigned long` 64 in both. Shares of the mass and probabilities are
// integers in units of 2^-32.

#define TASK_DRAW 1u       // draw a token; otherwise only score a given one
#define TASK_GREEDY 2u     // temperature 0
#define TASK_LOGPROB 4u    // of the drawn token; a scored token's is always given
#define TASK_PROCESSED 8u  // logprobs of the distribution that is drawn from, not of the model
#define TASK_EDIT 16u      // the row has a state
#define TASK_ABSORB 32u    // the state still lacks the token in the row's slot
#define TASK_FORCED 64u    // the draw is `target`, as if it were the only token

#define RESULT_BAD 1u   // a logit is NaN or +infinity
#define RESULT_NONE 2u  // no token has a finite logit

// The bits of a result that tell which work was done.
#define STAGE_SUM 1u     // exp over the vocabulary, for logprobs
#define STAGE_TOP 2u     // the likeliest tokens
#define STAGE_FILTER 4u  // top-k or top-p
#define STAGE_NOISE 8u
#define STAGE_EDIT 16u
#define STAGE_TYPICAL 32u
#define STAGE_XTC 64u  // the draw of this position fell within its probability
#define STAGE_LISTED 128u

#define SAMPLER_BINS 256u  // 64-bit numbers of working space for each row

#ifdef __cplusplus
namespace millrace::kernels {
#endif

typedef struct TaskRecord {
  unsigned long seed;
  unsigned long top_p;            // 2^32: off
  unsigned long xtc_probability;  // 0: off
  unsigned flags;                 // TASK_ bits
  unsigned slot;                  // in ids
  unsigned target;                // the token to score, or that a draw is forced to
  unsigned position;              // of the drawn token in its sequence
  unsigned sample;                // index among the request's n
  float inverse_temperature;
  unsigned top_k;      // 0: off
  float min_p;         // 0: off
  unsigned typical_p;  // 0: off
  unsigned xtc_threshold;
  unsigned banned;  // offset in lists of ids that must not be drawn
  unsigned banned_count;
  unsigned top;     // number of likeliest tokens to give
  unsigned top_at;  // offset of the first among those of all tasks
  unsigned listed;  // offset in lists of ids whose logprobs to give
  unsigned listed_count;
  unsigned listed_at;  // offset of the first logprob among those of all tasks
  unsigned state;      // offset in states, in words
} TaskRecord;

typedef struct ResultRecord {
  unsigned id;
  unsigned flags;   // RESULT_ bits
  float logprob;    // NaN if it was not requested
  unsigned stages;  // STAGE_ bits
} ResultRecord;

#ifdef __cplusplus
}  // namespace millrace::kernels
#endif
