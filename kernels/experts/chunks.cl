// The chunks of the runs of experts (runs.cl) that groups claim, on CPUs. A template, which
// exact_cpu.cl and integer_tiles.cl include: they define ROW_NUMBER, the type of the numbers of a
// row of x, and mr_cut_work, which cuts a run.
#include "matmul/cut.cl"
#include "matmul/layout.cl"

#ifndef ROW_NUMBER
#define ROW_NUMBER float
#endif
#ifndef X_STRIDE
#define X_STRIDE K
#endif

static inline Cut MR_N(mr_cut_work)(uint units, uint pairs, uint columns, uint share);

#ifndef MR_CHUNKS_BEGUN
#define MR_CHUNKS_BEGUN
// What a product multiplies (generic.cl).
typedef struct {
  __global const uchar* weight;
  __global const ROW_NUMBER* x;
  __global const ROW_NUMBER* sorted;
  __global const float* bias;
  uint panels, rows, first_row, by_token, mode;
} ExpertsProduct;

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

// A chunk: units first .. last - 1, columns c .. c + width - 1 of its run, which are the slots from
// `slot` on, with the matrix and the bias of their expert.
typedef struct {
  uint first, last, width;
  size_t slot;
  __global const ROW_NUMBER* x;
  __global const uchar* weight;
  __global const float* bias;
} Chunk;

// Returns at least how many chunks a run has, if it has as many units: some for each group.
static inline uint mr_share(__global const uint* runs) {
  const uint chunks = (uint)get_num_groups(0) * CHUNKS_A_GROUP, count = max(runs[0], 1u);
  return (chunks + count - 1) / count;
}

// All runs of all experts.
static inline Work mr_work_of(__global const uint* runs, uint experts, uint units, uint pairs) {
  const Work work = {runs, 0, experts, units, pairs, mr_share(runs)};
  return work;
}

// The last group resets the counters.
static inline void mr_finish(volatile __global uint* counters) {
  if (atomic_inc(counters + 1) == (uint)get_num_groups(0) - 1) {
    atomic_xchg(counters, 0);
    atomic_xchg(counters + 1, 0);
  }
}
#endif

static inline void MR_N(mr_enter)(Walk* walk, const Work* work, uint run) {
  walk->run = run;
  walk->cut.chunks = 0;
  if (run >= work->runs[0]) return;
  walk->at = vload4(1 + run, work->runs);
  if (walk->at.x - work->first_expert < work->experts) {
    walk->cut = MR_N(mr_cut_work)(work->units, work->pairs, walk->at.z, work->share);
  }
}

static inline void MR_N(mr_begin)(Walk* walk, const Work* work) {
  walk->before = 0;
  MR_N(mr_enter)(walk, work, 0);
}

// Goes to chunk i of all runs, not before the chunk where the walk is; false if there is none: then
// `before` is the number of all chunks.
static inline bool MR_N(mr_go)(Walk* walk, const Work* work, uint i) {
  while (walk->run < work->runs[0]) {
    walk->chunk = i - walk->before;
    if (walk->chunk < walk->cut.chunks) return true;
    walk->before += walk->cut.chunks;
    MR_N(mr_enter)(walk, work, walk->run + 1);
  }
  return false;
}

static inline uint MR_N(mr_count_chunks)(const Work* work) {
  Walk walk;
  MR_N(mr_begin)(&walk, work);
  MR_N(mr_go)(&walk, work, UINT_MAX);
  return walk.before;
}

static inline void MR_N(mr_find_chunk)(Chunk* out, const Walk* walk, const Work* work,
                                       const ExpertsProduct* product) {
  const uint part = walk->chunk % walk->cut.parts, expert = walk->at.x;
  const uint c = mr_part_begin(&walk->cut, walk->at.z, part);
  out->first = walk->chunk / walk->cut.parts * walk->cut.run;
  out->last = min(out->first + walk->cut.run, work->units);
  out->width = mr_part_begin(&walk->cut, walk->at.z, part + 1) - c;
  out->slot = (size_t)walk->at.y + c;
  const bool direct = product->by_token != 0 && walk->at.z == 1;
  out->x = direct ? product->x + (size_t)walk->at.w * X_STRIDE
                  : product->sorted + out->slot * X_STRIDE;
  out->weight = product->weight +
                (size_t)(expert - work->first_expert) * product->panels * PANEL_BYTES;
  out->bias = product->bias + (size_t)expert * product->rows + product->first_row;
}
