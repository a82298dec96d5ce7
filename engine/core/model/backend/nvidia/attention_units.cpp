#include "engine/core/model/backend/nvidia/attention_units.hpp"

#include <algorithm>

#include "engine/core/kv/policy.hpp"
#include "engine/core/model/backend/nvidia/warps.hpp"

namespace millrace::engine {

void MatrixPlanner::add_tiles(std::span<const StepRow> rows, const MatrixLimits& limits,
                              std::uint32_t window) {
  tiles_.clear();
  for (const StepRow& row : rows) {
    const bool wide = limits.warps > 1 && row.count > limits.warp_tokens;
    const std::uint32_t most = limits.warp_tokens * (wide ? limits.warps : 1);
    for (std::uint32_t done = 0; done < row.count; done += most) {
      const std::uint32_t take = std::min(most, row.count - done);
      const std::uint32_t position = row.first_position + done;
      const std::uint32_t seen = window == 0 || position < window ? 0 : position - window + 1;
      const std::uint32_t first = seen / kv_segment_tokens;
      tiles_.push_back({.unit = {.token = row.token + done,
                                 .tokens = take,
                                 .position = position,
                                 .table = 0,
                                 .first = first,
                                 .count = (position + take - 1) / kv_segment_tokens + 1 - first,
                                 .partial = 0,
                                 .counter = 0,
                                 .parts = 0},
                        .wide = wide});
    }
  }
}

// Adds the units of a tile, of at most so many segments each.
void MatrixPlanner::cut(const Tile& tile, const MatrixLimits& limits, std::uint32_t most) {
  kernels::MatrixUnit unit = tile.unit;
  const std::uint32_t segments = unit.count, pieces = parts(segments, most);
  if (pieces > 1) {
    unit.partial = out_.partials;
    unit.counter = out_.counters;
    unit.parts = pieces;
    out_.counters += tile.wide ? 1 : unit.tokens;
    out_.partials += segments * unit.tokens * limits.heads;
  }
  for (std::uint32_t i = 0; i < pieces; ++i) {
    const std::uint32_t begin = segments * i / pieces, end = segments * (i + 1) / pieces;
    unit.first = tile.unit.first + begin;
    unit.count = end - begin;
    // A tile's last segment is seldom whole.
    if (!tile.wide) out_.narrow_tokens = std::max(out_.narrow_tokens, unit.tokens);
    auto& list = tile.wide ? out_.wide : i + 1 == pieces ? last_ : out_.narrow;
    list.push_back(unit);
  }
}

const MatrixUnits& MatrixPlanner::plan(std::span<const StepRow> rows, const MatrixLimits& limits,
                                       std::uint32_t window) {
  out_.narrow.clear();
  out_.wide.clear();
  out_.partials = out_.counters = out_.narrow_tokens = 0;
  last_.clear();
  add_tiles(rows, limits, window);
  std::uint64_t tiles = 0, segments = 0;
  for (const Tile& tile : tiles_) {
    if (!tile.wide) continue;
    tiles += limits.head_sets;
    segments += std::uint64_t{tile.unit.count} * limits.head_sets;
  }
  constexpr std::uint32_t all = 1u << 30;
  const auto fair = static_cast<std::uint32_t>((segments + limits.groups - 1) / limits.groups);
  const std::uint32_t most = tiles >= limits.groups ? all : fair;
  for (const Tile& tile : tiles_) cut(tile, limits, tile.wide ? most : 1);
  out_.narrow.insert(out_.narrow.end(), last_.begin(), last_.end());
  // Equal counts stay in the order of tokens: positions of the device's tables, and so bits, do not
  // depend on it, but a step's words should be the same each time.
  std::ranges::sort(out_.wide, [](const kernels::MatrixUnit& a, const kernels::MatrixUnit& b) {
    if (a.count != b.count) return a.count > b.count;
    return a.token != b.token ? a.token > b.token : a.first < b.first;
  });
  return out_;
}

void MatrixPlanner::append(std::span<const MatrixLimits> limits, StepTable& step) {
  for (std::size_t i = 0; i < step.attention.size(); ++i) {
    AttentionItems& items = step.attention[i];
    plan(step.rows, limits[i], items.window);
    MatrixUnits& units = out_;
    for (auto* list : {&units.narrow, &units.wide}) {
      for (kernels::MatrixUnit& unit : *list) {
        unit.table = step.words[items.tables_at + unit.token];
      }
    }
    items.single_units = step.append(units.narrow);
    items.multi_units = step.append(units.wide);
    items.single_tokens = units.narrow_tokens;
    items.partials = units.partials;
    items.counters = units.counters;
  }
}

}  // namespace millrace::engine
