// Multiplies each run's rows by its expert's matrix, on CPUs. generic.cl defines what is computed
// and the arguments; the tiles of matmul/exact_cpu.cl or matmul/integer_cpu.cl, after which this
// file comes, do the work. An output's bits depend on its expert and its row of x alone.
//
//   x        rows by token, read by runs of one slot if by_token is not 0
//   sorted   rows by slot, read by the other runs (runs.cl, gather_rows)
//   launch   local (1), one group per core. Every run is cut into chunks, panels by columns, which
//            the groups claim by one counter. So all cores share a run that many tokens chose, and
//            a core that got a long chunk takes fewer of them
//   work     uint [2], zero before and after each launch: next chunk, groups that have finished
//   scratch  STRIP_FLOATS floats per group
// Limit: at few rows, reads of the experts' weights; from about 4 slots a run, dot products.
#ifdef Q_WORDS
typedef __global const int* MrRows;
#else
typedef __global const float* MrRows;
#define MR_KERNEL __kernel __attribute__((reqd_work_group_size(1, 1, 1))) void
#define CHUNKS_A_GROUP 4

// The cut of a run: units of four panels in runs of one, columns in parts of a tile.
typedef struct {
  uint run, parts, chunks;
} Cut;

static inline Cut mr_cut_work(uint units, uint pairs, uint columns, uint share) {
  const uint parts = (columns + TILE - 1) / TILE;
  const Cut cut = {1, parts, units * parts};
  return cut;
}
#endif

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
  MrRows x;
} Chunk;

static inline void mr_find_chunk(Chunk* out, const Walk* walk, const Work* work, MrRows x,
                                 MrRows sorted, uint by_token) {
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

#define MR_MATRIX(chunk) \
  (weight + (size_t)((chunk).expert - first_expert) * panels * PANEL_BYTES)
#define MR_BIAS(chunk) (bias + (size_t)(chunk).expert * rows + first_row)

MR_KERNEL experts_matmul(__global const uchar* weight, MrRows x, MrRows sorted,
                         __global float* out, __global const float* bias,
                         __global const uint* runs, uint panels, uint first_expert, uint experts,
                         uint rows, uint first_row, uint out_stride, uint by_token, uint mode,
                         volatile __global uint* counters) {
#ifdef Q_WORDS
  const Work work = {runs, first_expert, experts, (panels + 1) / 2, 1, mr_share(runs)};
#else
  const Work work = {runs, first_expert, experts, (panels + 3) / 4, 2, mr_share(runs)};
#endif
  Walk walk;
  walk.before = 0;
  mr_enter(&walk, &work, 0);
  while (mr_claim(&walk, &work, counters)) {
    Chunk chunk;
    mr_find_chunk(&chunk, &walk, &work, x, sorted, by_token);
    __global float* to = out + chunk.slot * out_stride + first_row;
#ifdef Q_WORDS
    MR_N(mr_pairs)(MR_MATRIX(chunk), chunk.x, to, MR_BIAS(chunk), panels, chunk.first, chunk.last,
                   1, chunk.width, MR_COLUMN_TILES(chunk.width), out_stride, mode);
#else
    mr_panels(MR_MATRIX(chunk), chunk.x, to, MR_BIAS(chunk), 4 * chunk.first,
              min(4 * chunk.last, panels), chunk.width, out_stride, mode);
#endif
  }
  mr_finish(counters);
}

#ifdef Q_WORDS
// Computes gate and up, panels / 2 each, and writes the slots' quantized rows of their activation
// (activation/silu.cl).
MR_KERNEL experts_gate_up(__global const uchar* weight, MrRows x, MrRows sorted,
                          __global float* scratch, __global int* out,
                          __global const float* bias, __global const uint* runs, uint panels,
                          uint first_expert, uint experts, uint rows, uint out_stride, uint mode,
                          volatile __global uint* counters) {
  __global float* sums = scratch + get_group_id(0) * STRIP_FLOATS;
  const uint first_row = 0;
  const Work work = {runs, first_expert, experts, panels / 4, 2, mr_share(runs)};
  Walk walk;
  walk.before = 0;
  mr_enter(&walk, &work, 0);
  while (mr_claim(&walk, &work, counters)) {
    Chunk chunk;
    mr_find_chunk(&chunk, &walk, &work, x, sorted, 1);
    MR_N(mr_gate_up)(MR_MATRIX(chunk), chunk.x, out + chunk.slot * out_stride, MR_BIAS(chunk),
                     sums, panels, chunk.first, chunk.last, 1, chunk.width,
                     MR_COLUMN_TILES(chunk.width), out_stride, mode);
  }
  mr_finish(counters);
}
#endif
