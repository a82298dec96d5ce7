#include "engine/core/model/attention_units.hpp"

#include <algorithm>
#include <array>

#include "engine/core/kv/cache_group.hpp"

namespace millrace::engine {
namespace {

// Units a worker gets at least, so that none waits long for the last one.
constexpr std::uint32_t units_per_worker = 8;

struct Tile {
  std::uint32_t token = 0, tokens = 0, segments = 0;
};

struct Unit {
  Tile tile;
  std::uint32_t first = 0, count = 0;                 // segments
  std::uint32_t partial = 0, counter = 0, parts = 0;  // 0 parts: the whole tile
};

struct UnitList {
  std::vector<std::uint32_t> words;
  std::uint32_t partials = 0, counters = 0;
};

// The most segments in a unit.
std::uint64_t longest_unit(std::span<const Tile> tiles, const AttentionLimits& limits) {
  if (limits.workers == 1) return ~0ull;
  std::uint64_t work = 0;
  for (const Tile& tile : tiles) work += std::uint64_t{tile.segments} * limits.kv_heads;
  return std::max<std::uint64_t>(1, work / (std::uint64_t{limits.workers} * units_per_worker));
}

UnitList plan_units(std::span<const Tile> tiles, const AttentionLimits& limits) {
  const std::uint64_t most = longest_unit(tiles, limits);
  UnitList out;
  std::vector<Unit> units;
  for (const Tile& tile : tiles) {
    const auto parts = static_cast<std::uint32_t>((tile.segments - 1) / most + 1);
    if (parts == 1) {
      units.push_back({.tile = tile, .first = 0, .count = tile.segments});
      continue;
    }
    for (std::uint32_t i = 0; i < parts; ++i) {
      const std::uint32_t first = tile.segments * i / parts;
      const std::uint32_t last = tile.segments * (i + 1) / parts;
      units.push_back({.tile = tile,
                       .first = first,
                       .count = last - first,
                       .partial = out.partials,
                       .counter = out.counters,
                       .parts = parts});
    }
    out.partials += tile.segments;
    ++out.counters;
  }
  const auto longer = [](const Unit& a, const Unit& b) { return a.count > b.count; };
  std::stable_sort(units.begin(), units.end(), longer);
  out.words.reserve(units.size() * attention_unit_words);
  for (const Unit& unit : units) {
    const std::array<std::uint32_t, attention_unit_words> words{
        unit.tile.token, unit.tile.tokens, unit.first, unit.count,
        unit.partial,    unit.counter,     unit.parts, 0};
    out.words.insert(out.words.end(), words.begin(), words.end());
  }
  return out;
}

}  // namespace

AttentionUnits plan_attention(std::span<const AttentionRow> rows, const AttentionLimits& limits) {
  AttentionUnits out;
  if (limits.workers == 0) return out;
  std::vector<Tile> single, multi;
  for (const AttentionRow& row : rows) {
    for (std::uint32_t done = 0; done < row.count;) {
      const std::uint32_t take = std::min(limits.tile_tokens, row.count - done);
      const std::uint32_t end = row.first_position + done + take;
      const Tile tile{.token = row.token + done,
                      .tokens = take,
                      .segments = (end + kv_segment_tokens - 1) / kv_segment_tokens};
      (take == 1 ? single : multi).push_back(tile);
      done += take;
    }
  }
  for (const Tile& tile : multi) {
    out.tiles.push_back(tile.token);
    out.tiles.push_back(tile.tokens);
  }
  UnitList one = plan_units(single, limits), many = plan_units(multi, limits);
  out.single = std::move(one.words);
  out.multi = std::move(many.words);
  out.partials = std::max(one.partials, many.partials);
  out.counters = std::max(one.counters, many.counters);
  return out;
}

}  // namespace millrace::engine
