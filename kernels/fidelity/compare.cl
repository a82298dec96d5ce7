// Compares rows of logits with reference rows, the truth, over the same tokens: KL divergence,
// arg-max, and the logprobs of the tokens with which the text continues.
//
//   truth, ours  float [rows][truth_stride], [rows][ours_stride]: `vocab` of each row are read
//   targets      uint [rows], below vocab
//   out          uint [rows][4]: floats KLD(truth || ours) in nats, the target's logprob in the
//                truth, in ours; then flags: COMPARE_*. If a logit is not finite (or beyond 1e30),
//                only the flags are set and the floats are 0.
//   launch       one group of ROW_ITEMS work-items per row
//
// With a the truth's logits, b ours, p = softmax(a), d = a - b, m = sum(p d) and e = d - m:
//
//   KLD = sum(p d) + log(sum(p exp(-d))) = log(1 + sum(p (exp(-e) - 1 + e)))
//
// No term of the last sum is negative, so nothing cancels: a divergence of 1e-9 keeps five digits,
// where the difference of two fp32 log-softmaxes would have none. From COMPARE_FAR on, where
// exp(-e) may overflow and little cancels, the kernel computes sum(p d) minus the difference of the
// logs of the two normalizers.
//
// Order of sums, in every variant: blocks of COMPARE_VECTORS times 16 tokens. In a block, lane l
// adds tokens l, l + 16, ...; then mr_sum16; then blocks in order. There are three walks: largest
// logits; normalizers and m; the sum above.
// Limit: memory, 24 bytes a token; on a CPU the four exponentials a token.
#include "common/math.cl"
#include "common/prelude.cl"

#define COMPARE_SAME 1u        // both rows have the same arg-max (the lower id of equals)
#define COMPARE_BAD_TRUTH 2u   // a logit of the truth is not finite
#define COMPARE_BAD_OURS 4u
#define COMPARE_VECTORS 64u
#define COMPARE_FAR 0.5f
#define COMPARE_LEAST (-1e30f) // pads the end of a row: no weight, no difference

typedef struct {
  __global const float *truth, *ours;
  uint vocab;
  float truth_max, ours_max, mean;  // each is set once its walk is done
} compare_t;

static inline float16 compare_load(__global const float* row, uint at, uint vocab) {
  if (at + 16 <= vocab) return vload16(0, row + at);
  float lanes[16];
  for (uint i = 0; i < 16; ++i) lanes[i] = at + i < vocab ? row[at + i] : COMPARE_LEAST;
  return vload16(0, lanes);
}

// Returns weight * (exp(-e) - 1 + e), where weight is exp(y), by a series where exp(-e) is near 1.
static inline float16 compare_term(float16 y, float16 weight, float16 e) {
  float16 p = fma(e, (float16)(0.00138888889f), (float16)(-0.00833333333f));
  p = fma(p, e, (float16)(0.0416666667f));
  p = fma(p, e, (float16)(-0.166666667f));
  p = fma(p, e, (float16)(0.5f));
  const float16 near = weight * (e * e * p);
  const float16 far = fma(weight, e - 1.0f, mr_exp16(y - e));
  return select(far, near, (int16)(fabs(e) < 0.25f));
}

// Sums one block: the truth's weights, those times d, and our weights; or, with `terms`, the terms.
static inline float4 compare_block(const compare_t* r, uint block, int terms) {
  float16 truth = 0.0f, moved = 0.0f, ours = 0.0f;
  for (uint v = 0; v < COMPARE_VECTORS; ++v) {
    const uint at = (block * COMPARE_VECTORS + v) * 16;
    if (at >= r->vocab) break;
    const float16 a = compare_load(r->truth, at, r->vocab);
    const float16 b = compare_load(r->ours, at, r->vocab);
    const float16 y = a - r->truth_max;
    const float16 weight = mr_exp16(y);
    if (terms) {
      truth += compare_term(y, weight, (a - b) - r->mean);
    } else {
      truth += weight;
      moved = fma(weight, a - b, moved);
      ours += mr_exp16(b - r->ours_max);
    }
  }
  return (float4)(mr_sum16(truth), mr_sum16(moved), mr_sum16(ours), 0.0f);
}

// The largest of a work-item's logits, the lowest id that has it, and whether one is not finite.
typedef struct {
  float max;
  uint argmax, bad;
} compare_top_t;

static inline compare_top_t compare_top(__global const float* row, uint vocab) {
  float16 best = -INFINITY;
  uint16 where = 0u;
  int16 sound = -1;
  const uint16 lanes = (uint16)(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
  for (uint at = ROW_ITEM * 16; at < vocab; at += ROW_ITEMS * 16) {
    const float16 x = compare_load(row, at, vocab);
    sound &= fabs(x) <= 1e30f;
    const int16 better = x > best;
    best = select(best, x, better);
    where = select(where, at + lanes, better);
  }
  compare_top_t top = {mr_max16(best), 0xffffffffu, all(sound) ? 0u : 1u};
  float values[16];
  uint ids[16];
  vstore16(best, 0, values);
  vstore16(where, 0, ids);
  for (uint i = 0; i < 16; ++i) {
    if (values[i] == top.max) top.argmax = min(top.argmax, ids[i]);
  }
  return top;
}

// Combine the results of a row's work-items; each work-item gets the result for the whole row.
#if ROW_ITEMS == 1
#define COMPARE_SPACE
#define COMPARE_PARAMETER
#define COMPARE_ARGUMENT
static inline compare_top_t compare_together(compare_top_t top) { return top; }

static inline float4 compare_sums(const compare_t* r, int terms) {
  float4 sums = 0.0f;
  for (uint block = 0; block * COMPARE_VECTORS * 16 < r->vocab; ++block) {
    sums += compare_block(r, block, terms);
  }
  return sums;
}
#else
#define COMPARE_SPACE __local uint4 space[ROW_ITEMS];
#define COMPARE_PARAMETER , __local uint4* space
#define COMPARE_ARGUMENT , space
MR_GROUP_INLINE compare_top_t compare_together(compare_top_t top, __local uint4* space) {
  barrier(CLK_LOCAL_MEM_FENCE);
  space[ROW_ITEM] = (uint4)(as_uint(top.max), top.argmax, top.bad, 0u);
  barrier(CLK_LOCAL_MEM_FENCE);
  for (uint i = 0; i < ROW_ITEMS; ++i) {
    const uint4 other = space[i];
    const float max = as_float(other.x);
    if (max > top.max || (max == top.max && other.y < top.argmax)) {
      top.max = max;
      top.argmax = other.y;
    }
    top.bad |= other.z;
  }
  return top;
}

MR_GROUP_INLINE float4 compare_sums(const compare_t* r, int terms, __local uint4* space) {
  float4 sums = 0.0f;
  const uint blocks = (r->vocab + COMPARE_VECTORS * 16 - 1) / (COMPARE_VECTORS * 16);
  for (uint first = 0; first < blocks; first += ROW_ITEMS) {
    barrier(CLK_LOCAL_MEM_FENCE);  // all work-items have read the previous contents
    if (first + ROW_ITEM < blocks) {
      space[ROW_ITEM] = as_uint4(compare_block(r, first + ROW_ITEM, terms));
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    for (uint i = 0; i < ROW_ITEMS && first + i < blocks; ++i) sums += as_float4(space[i]);
  }
  return sums;
}
#endif

// Computes log(1 + x) for x in [0, COMPARE_FAR).
static inline float compare_log1p(float x) {
  if (x >= 0.05f) return mr_log(1.0f + x);
  float p = fma(x, 0.2f, -0.25f);
  p = fma(p, x, 0.333333333f);
  p = fma(p, x, -0.5f);
  p = fma(p, x, 1.0f);
  return x * p;
}

__kernel __attribute__((reqd_work_group_size(ROW_ITEMS, 1, 1)))
void compare_rows(__global const float* truth, uint truth_stride, __global const float* ours,
                  uint ours_stride, uint vocab, __global const uint* targets,
                  __global uint* out) {
  COMPARE_SPACE
  const uint index = (uint)get_group_id(0);
  compare_t r;
  r.truth = truth + (size_t)index * truth_stride;
  r.ours = ours + (size_t)index * ours_stride;
  r.vocab = vocab;
  const compare_top_t t = compare_together(compare_top(r.truth, vocab) COMPARE_ARGUMENT);
  const compare_top_t o = compare_together(compare_top(r.ours, vocab) COMPARE_ARGUMENT);
  r.truth_max = t.max;
  r.ours_max = o.max;
  r.mean = 0.0f;
  const float4 sums = compare_sums(&r, 0 COMPARE_ARGUMENT);
  const float inverse = mr_recip(sums.x);
  r.mean = sums.y * inverse;
  const float spread = compare_sums(&r, 1 COMPARE_ARGUMENT).x * inverse;
  if (ROW_ITEM != 0) return;
  out += (size_t)index * 4;
  out[0] = out[1] = out[2] = 0;
  out[3] = (t.bad ? COMPARE_BAD_TRUTH : 0u) | (o.bad ? COMPARE_BAD_OURS : 0u);
  if (out[3] != 0) return;
  const float truth_log = mr_log(sums.x), ours_log = mr_log(sums.z);
  const float far = r.mean - ((t.max - o.max) + (truth_log - ours_log));
  const uint target = targets[index];
  out[0] = as_uint(spread < COMPARE_FAR ? compare_log1p(spread) : far);
  out[1] = as_uint((r.truth[target] - t.max) - truth_log);
  out[2] = as_uint((r.ours[target] - o.max) - ours_log);
  out[3] = t.argmax == o.argmax ? COMPARE_SAME : 0u;
}
