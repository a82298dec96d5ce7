#pragma once
// Cuts the attention of a step into units of work for a matrix unit (kernels/attention/nvidia.cl):
// pure arithmetic, no device. A tile is consecutive tokens of one plan row: of rows of few tokens
// as many as a warp takes (narrow), of others as many as the warps of a group take (wide). A unit
// is a tile with a run of segments of 256 positions of which one of its tokens sees something.
// Narrow units have one segment each; wide tiles are cut only if whole tiles would leave the device
// idle. The cuts change no bit of a result. A planner reuses its memory from step to step. Thread
// safety: one owner a planner.
#include <cstdint>
#include <span>
#include <vector>

#include "engine/core/model/step_table.hpp"
#include "kernels/step/records.h"

namespace millrace::engine {

struct MatrixLimits {
  std::uint32_t warp_tokens = 1;  // most tokens of a warp
  std::uint32_t warps = 1;        // of a group of wide tiles; 1: all tiles are narrow
  std::uint32_t heads = 1;        // query heads of a set
  std::uint32_t head_sets = 1;    // each unit is computed once for each (attention/heads.cl)
  std::uint32_t groups = 1;       // that the device computes at the same time
};

struct MatrixUnits {
  std::vector<kernels::MatrixUnit> narrow, wide;  // the longer ones first
  std::uint32_t narrow_tokens = 0;                // most tokens of a narrow unit
  // Rows of partial results; what counts the units of tiles that are cut: of narrow ones each
  // token.
  std::uint32_t partials = 0, counters = 0;
};

class MatrixPlanner {
 public:
  // Appends to each entry of a step's attention, which has the limits of the same place, its units.
  void append(std::span<const MatrixLimits> limits, StepTable& step);
  // `window` is the number of positions that a token sees, its own the last of them; 0: all. The
  // result is valid until the next call. Tables are left out.
  const MatrixUnits& plan(std::span<const StepRow> rows, const MatrixLimits& limits,
                          std::uint32_t window);

 private:
  struct Tile {
    kernels::MatrixUnit unit;  // with all of its segments
    bool wide = false;
  };
  void add_tiles(std::span<const StepRow> rows, const MatrixLimits& limits, std::uint32_t window);
  void cut(const Tile& tile, const MatrixLimits& limits, std::uint32_t most);

  MatrixUnits out_;
  std::vector<Tile> tiles_;
  std::vector<kernels::MatrixUnit> last_;  // the last units of narrow tiles
};

}  // namespace millrace::engine
