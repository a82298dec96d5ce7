#pragma once
// Cuts the attention of a step into units of work for the `cpu` kernels, on behalf of that family's
// backend: pure arithmetic, no device. A tile is up to `tile_tokens` consecutive tokens of one plan
// row. A unit is a tile with a run of consecutive 256-position segments
// (kernels/attention/tiles.cl) that one of its tokens sees. Tiles of one token have a list of their
// own, because another kernel computes them. A long tile is cut into several units if whole tiles
// would leave workers idle; its partial sums then go through memory. The cuts change no bit of a
// result. A planner reuses its memory from step to step. Thread safety: one owner a planner.
#include <cstdint>
#include <span>
#include <vector>

#include "engine/core/model/step_table.hpp"
#include "kernels/step/records.h"

namespace millrace::engine {

struct AttentionLimits {
  std::uint32_t tile_tokens = 1;  // most tokens in one tile
  std::uint32_t workers = 1;      // cores that compute units
  std::uint32_t head_sets = 1;    // each unit is computed once for each (attention/heads.cl)
};

struct AttentionUnits {
  std::vector<kernels::UnitRecord> single, multi;  // longest first
  std::vector<kernels::TileRecord> tiles;          // those of several tokens
  std::uint32_t partials = 0, counters = 0;        // totals of both lists
};

class AttentionPlanner {
 public:
  // Appends to each entry of a step's attention, which has the limits of the same place, its tiles
  // and units. Entries whose tiles are alike share them.
  void append(std::span<const AttentionLimits> limits, StepTable& step);
  // `window` is the number of positions that a token sees, its own the last of them; 0: all. The
  // result is valid until the next call.
  const AttentionUnits& plan(std::span<const StepRow> rows, const AttentionLimits& limits,
                             std::uint32_t window);

 private:
  struct Tile {
    std::uint32_t token = 0, tokens = 0, first = 0, segments = 0;  // first segment that it sees
  };
  struct Unit {
    Tile tile;
    std::uint32_t first = 0, count = 0;                 // segments
    std::uint32_t partial = 0, counter = 0, parts = 0;  // 0 parts: the whole tile
    std::uint32_t order = 0;                            // in which the units were created
  };
  static std::uint64_t longest_unit(std::span<const Tile> tiles, const AttentionLimits& limits);
  void cut(std::span<const Tile> tiles, const AttentionLimits& limits,
           std::vector<kernels::UnitRecord>& records);

  AttentionUnits out_;
  std::vector<Tile> single_, multi_;
  std::vector<Unit> units_;
};

}  // namespace millrace::engine
