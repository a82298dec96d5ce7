#include "engine/core/model/backend/cpu/attention_units.hpp"

#include <algorithm>

#include "engine/core/kv/policy.hpp"

namespace millrace::engine {
namespace {

// Least number of units for each worker, so that none waits long for the last unit.
constexpr std::uint32_t units_per_worker = 8;

// The first segment of which a token at `position` sees anything.
std::uint32_t first_segment(std::uint32_t position, std::uint32_t window) {
  return window == 0 || position < window ? 0 : (position - window + 1) / kv_segment_tokens;
}

}  // namespace

// The greatest number of segments in a unit.
std::uint64_t AttentionPlanner::longest_unit(std::span<const Tile> tiles,
                                             const AttentionLimits& limits) {
  if (limits.workers == 1) return ~0ull;
  std::uint64_t work = 0;
  for (const Tile& tile : tiles) work += std::uint64_t{tile.segments} * limits.head_sets;
  return std::max<std::uint64_t>(1, work / (std::uint64_t{limits.workers} * units_per_worker));
}

// Appends the units of `tiles`, longest first. The partials and counters of tiles that are cut
// follow those in use already.
void AttentionPlanner::cut(std::span<const Tile> tiles, const AttentionLimits& limits,
                           std::vector<kernels::UnitRecord>& records) {
  const std::uint64_t most = longest_unit(tiles, limits);
  units_.clear();
  const auto add = [&](Unit unit) {
    unit.order = static_cast<std::uint32_t>(units_.size());
    units_.push_back(unit);
  };
  for (const Tile& tile : tiles) {
    const auto parts = static_cast<std::uint32_t>((tile.segments - 1) / most + 1);
    if (parts == 1) {
      add({.tile = tile, .first = tile.first, .count = tile.segments});
      continue;
    }
    for (std::uint32_t i = 0; i < parts; ++i) {
      const std::uint32_t first = tile.segments * i / parts;
      const std::uint32_t last = tile.segments * (i + 1) / parts;
      add({.tile = tile,
           .first = tile.first + first,
           .count = last - first,
           .partial = out_.partials,
           .counter = out_.counters,
           .parts = parts});
    }
    out_.partials += tile.segments;
    ++out_.counters;
  }
  // A stable sort would allocate memory each time; `order` makes this one stable.
  std::ranges::sort(units_, [](const Unit& a, const Unit& b) {
    return a.count != b.count ? a.count > b.count : a.order < b.order;
  });
  for (const Unit& unit : units_) {
    records.push_back({.token = unit.tile.token,
                       .tokens = unit.tile.tokens,
                       .first = unit.first,
                       .count = unit.count,
                       .partial = unit.partial,
                       .counter = unit.counter,
                       .parts = unit.parts,
                       .unused = 0});
  }
}

const AttentionUnits& AttentionPlanner::plan(std::span<const StepRow> rows,
                                             const AttentionLimits& limits, std::uint32_t window) {
  for (auto* list : {&out_.single, &out_.multi}) list->clear();
  out_.tiles.clear();
  out_.partials = out_.counters = 0;
  single_.clear();
  multi_.clear();
  for (const StepRow& row : rows) {
    for (std::uint32_t done = 0; done < row.count;) {
      const std::uint32_t take = std::min(limits.tile_tokens, row.count - done);
      const std::uint32_t end = row.first_position + done + take;
      const std::uint32_t first = first_segment(row.first_position + done, window);
      const Tile tile{.token = row.token + done,
                      .tokens = take,
                      .first = first,
                      .segments = (end + kv_segment_tokens - 1) / kv_segment_tokens - first};
      (take == 1 ? single_ : multi_).push_back(tile);
      done += take;
    }
  }
  for (const Tile& tile : multi_) out_.tiles.push_back({tile.token, tile.tokens});
  cut(single_, limits, out_.single);
  cut(multi_, limits, out_.multi);
  return out_;
}

// Windows change units, not tiles.
void AttentionPlanner::append(std::span<const AttentionLimits> limits, StepTable& step) {
  for (std::size_t i = 0; i < step.attention.size(); ++i) {
    AttentionItems& items = step.attention[i];
    const AttentionUnits& units = plan(step.rows, limits[i], items.window);
    const auto alike =
        std::ranges::find(limits.first(i), limits[i].tile_tokens, &AttentionLimits::tile_tokens);
    const auto first = static_cast<std::size_t>(alike - limits.begin());
    items.tiles = first < i ? step.attention[first].tiles : step.append(units.tiles);
    items.single_units = step.append(units.single);
    items.multi_units = step.append(units.multi);
    items.partials = units.partials;
    items.counters = units.counters;
  }
}

}  // namespace millrace::engine
