// The chunks of the runs of experts (runs.cl) that groups claim, on CPUs. exact_cpu.cl and
// integer_cpu.cl include it: they define ROW_NUMBER, the type of the numbers of a row of x, and
// mr_cut_work, which cuts a run.
#include "matmul/cut.cl"
#include "matmul/layout.cl"

#ifndef ROW_NUMBER
#define ROW_NUMBER float
#endif
#ifndef X_STRIDE
#define X_STRIDE K
#endif

static inline Cut mr_cut_work(uint units, uint pairs, uint columns, uint share);

// A launch's work: every run of the experts first_expert .. first_expert + experts - 1 has `units`
// of `pairs` pairs of panels.
typedef struct {
  __global const uint* runs;
  uint first_expert, experts, units, pairs, share;
} Work;

// Where a group is in that work: its chunk, its run, and the chunks of the runs before.
typedef struct {
  uint chunk, run, before;
  uint4 at;  // the run's expert, first slot, slots, token
  Cut cut;
} Walk;

// Returns at least how many chunks a run has, if it has as many units: some for each group.
static inline uint mr_share(__global const uint* runs) {
  const uint chunks = (uint)get_num_groups(0) * CHUNKS_A_GROUP, count = max(runs[0], 1u);
  return (chunks + count - 1) / count;
}

static inline void mr_enter(Walk* walk, const Work* work, uint run) {
  walk->run = run;
  walk->cut.chunks = 0;
  if (run >= work->runs[0]) return;
  walk->at = vload4(1 + run, work->runs);
  if (walk->at.x - work->first_expert < work->experts) {
    walk->cut = mr_cut_work(work->units, work->pairs, walk->at.z, work->share);
  }
}

// Claims the next chunk and goes to its run; false if there is none.
static inline bool mr_claim(Walk* walk, const Work* work, volatile __global uint* counters) {
  const uint i = atomic_inc(counters);
  while (walk->run < work->runs[0]) {
    walk->chunk = i - walk->before;
    if (walk->chunk < walk->cut.chunks) return true;
    walk->before += walk->cut.chunks;
    mr_enter(walk, work, walk->run + 1);
  }
  return false;
}

// The last group resets the counters.
static inline void mr_finish(volatile __global uint* counters) {
  if (atomic_inc(counters + 1) == (uint)get_num_groups(0) - 1) {
    atomic_xchg(counters, 0);
    atomic_xchg(counters + 1, 0);
  }
}

// A chunk: units first .. last - 1, columns c .. c + width - 1 of its run, which are the slots from
// `slot` on.
typedef struct {
  uint expert, first, last, width;
  size_t slot;
  __global const ROW_NUMBER* x;
} Chunk;

static inline void mr_find_chunk(Chunk* out, const Walk* walk, const Work* work,
                                 __global const ROW_NUMBER* x, __global const ROW_NUMBER* sorted,
                                 uint by_token) {
  const uint part = walk->chunk % walk->cut.parts;
  const uint c = mr_cut(walk->at.z, part, walk->cut.parts);
  out->expert = walk->at.x;
  out->first = walk->chunk / walk->cut.parts * walk->cut.run;
  out->last = min(out->first + walk->cut.run, work->units);
  out->width = mr_cut(walk->at.z, part + 1, walk->cut.parts) - c;
  out->slot = (size_t)walk->at.y + c;
  const bool direct = by_token != 0 && walk->at.z == 1;
  out->x = direct ? x + (size_t)walk->at.w * X_STRIDE : sorted + out->slot * X_STRIDE;
}

// Of the kernels' arguments.
#define MR_MATRIX(chunk) \
  (weight + (size_t)((chunk).expert - first_expert) * panels * PANEL_BYTES)
#define MR_BIAS(chunk) (bias + (size_t)(chunk).expert * rows + first_row)
