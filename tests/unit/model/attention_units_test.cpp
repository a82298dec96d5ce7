#include "engine/core/model/backend/cpu/attention_units.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>

namespace millrace::engine {
namespace {

using Unit = kernels::UnitRecord;

TEST(AttentionUnits, AStepGetsTheTilesOnceAndTheUnitsOfEachWindow) {
  StepTable step{.rows = {{.token = 0, .count = 1, .first_position = 9},
                          {.token = 1, .count = 5, .first_position = 700}},
                 .attention = {{.window = 0}, {.window = 100}},
                 .words = {77}};
  const AttentionLimits limits{.tile_tokens = 3, .workers = 1, .head_sets = 2};
  AttentionPlanner().append(std::vector{limits, limits}, step);
  using Words = std::vector<std::uint32_t>;
  const auto words = [&](const ItemList& list, std::uint32_t each) {
    const auto first = step.words.begin() + list.offset;
    return Words(first, first + list.count * each);
  };
  EXPECT_EQ(step.words[0], 77u);
  EXPECT_EQ(words(step.attention[0].tiles, 2), (Words{1, 3, 4, 2}));
  EXPECT_EQ(words(step.attention[0].single_units, 8), (Words{0, 1, 0, 1, 0, 0, 0, 0}));
  EXPECT_EQ(words(step.attention[0].multi_units, 8),
            (Words{1, 3, 0, 3, 0, 0, 0, 0, 4, 2, 0, 3, 0, 0, 0, 0}));
  EXPECT_EQ(words(step.attention[1].single_units, 8), (Words{0, 1, 0, 1, 0, 0, 0, 0}));
  EXPECT_EQ(words(step.attention[1].multi_units, 8),
            (Words{1, 3, 2, 1, 0, 0, 0, 0, 4, 2, 2, 1, 0, 0, 0, 0}));
  EXPECT_EQ(step.words.size(), 1u + 4 + 2 * (8 + 16));
  EXPECT_EQ(step.attention[1].tiles.offset, step.attention[0].tiles.offset);
}

TEST(AttentionUnits, LayersOfOtherHeadsGetTilesOfTheirOwn) {
  StepTable step{.rows = {{.token = 0, .count = 4, .first_position = 9}},
                 .attention = {{.window = 0}, {.window = 0}, {.window = 8}},
                 .words = {}};
  const AttentionLimits of_two{.tile_tokens = 2, .workers = 1, .head_sets = 1};
  const AttentionLimits of_four{.tile_tokens = 4, .workers = 1, .head_sets = 4};
  AttentionPlanner().append(std::vector{of_two, of_four, of_two}, step);
  const auto tiles = [&](std::size_t entry) {
    const ItemList& list = step.attention[entry].tiles;
    const auto first = step.words.begin() + list.offset;
    return std::vector<std::uint32_t>(first, first + list.count * 2);
  };
  EXPECT_EQ(tiles(0), (std::vector<std::uint32_t>{0, 2, 2, 2}));
  EXPECT_EQ(tiles(1), (std::vector<std::uint32_t>{0, 4}));
  EXPECT_EQ(tiles(2), tiles(0));
  EXPECT_EQ(step.attention[0].multi_units.count, 2u);
  EXPECT_EQ(step.attention[1].multi_units.count, 1u);
}

TEST(AttentionUnits, AChunkIsCutIntoTilesAndALastTokenStandsApart) {
  const StepRow row{.token = 3, .count = 9, .first_position = 250};
  AttentionPlanner planner;
  const auto& plan = planner.plan({&row, 1}, {.tile_tokens = 4, .workers = 1, .head_sets = 1}, 0);
  ASSERT_EQ(plan.tiles.size(), 2u);
  EXPECT_EQ(plan.tiles[0].token, 3u);
  EXPECT_EQ(plan.tiles[1].token, 7u);
  for (const auto& tile : plan.tiles) EXPECT_EQ(tile.tokens, 4u);
  const auto &single = plan.single, &multi = plan.multi;
  ASSERT_EQ(single.size(), 1u);
  EXPECT_EQ(single[0].token, 11u);
  EXPECT_EQ(single[0].count, 2u);  // position 258 is in the second segment
  ASSERT_EQ(multi.size(), 2u);
  EXPECT_EQ(multi[0].token, 7u);  // longer tiles come first
  EXPECT_EQ(multi[0].count, 2u);
  EXPECT_EQ(multi[1].token, 3u);
  EXPECT_EQ(multi[1].count, 1u);
  EXPECT_EQ(plan.partials, 0u);
}

TEST(AttentionUnits, LongTilesAreCutSoThatEveryWorkerHasSeveral) {
  const std::vector<StepRow> rows{{.token = 0, .count = 1, .first_position = 6999},
                                  {.token = 1, .count = 1, .first_position = 100},
                                  {.token = 2, .count = 1, .first_position = 4095}};
  AttentionPlanner planner;
  const auto& plan = planner.plan(rows, {.tile_tokens = 8, .workers = 2, .head_sets = 3}, 0);
  const auto& units = plan.single;
  std::map<std::uint32_t, std::vector<Unit>> of_token;
  std::uint32_t longest = units[0].count;
  for (const Unit& unit : units) {
    EXPECT_LE(unit.count, longest);  // sorted
    longest = unit.count;
    of_token[unit.token].push_back(unit);
  }
  EXPECT_GE(units.size() * 3, 2u * 8);
  EXPECT_EQ(plan.partials, 28u + 16u);
  EXPECT_EQ(plan.counters, 2u);
  EXPECT_EQ(of_token[1].size(), 1u);
  EXPECT_EQ(of_token[1][0].parts, 0u);
  for (const auto& [token, segments] : std::map<std::uint32_t, std::uint32_t>{{0, 28}, {2, 16}}) {
    auto& parts = of_token[token];
    std::ranges::sort(parts, {}, &Unit::first);
    std::uint32_t next = 0;
    for (const Unit& unit : parts) {
      EXPECT_EQ(unit.first, next);
      EXPECT_EQ(unit.parts, parts.size());
      EXPECT_EQ(unit.counter, parts[0].counter);
      EXPECT_EQ(unit.partial, parts[0].partial);
      next += unit.count;
    }
    EXPECT_EQ(next, segments);
  }
  EXPECT_NE(of_token[0][0].counter, of_token[2][0].counter);
  EXPECT_EQ(of_token[0][0].partial + 28 == of_token[2][0].partial ||
                of_token[2][0].partial + 16 == of_token[0][0].partial,
            true);
}

TEST(AttentionUnits, BothListsAreCutWithoutSharingPartialsOrCounters) {
  const std::vector<StepRow> rows{{.token = 0, .count = 1, .first_position = 6999},
                                  {.token = 1, .count = 2, .first_position = 4094}};
  AttentionPlanner planner;
  const auto& plan = planner.plan(rows, {.tile_tokens = 8, .workers = 2, .head_sets = 1}, 0);
  const auto &single = plan.single, &multi = plan.multi;
  ASSERT_GT(single[0].parts, 1u);
  ASSERT_GT(multi[0].parts, 1u);
  EXPECT_EQ(single[0].partial, 0u);
  EXPECT_EQ(multi[0].partial, 28u);
  EXPECT_NE(single[0].counter, multi[0].counter);
  EXPECT_EQ(plan.partials, 28u + 16u);
  EXPECT_EQ(plan.counters, 2u);
}

TEST(AttentionUnits, SegmentsBeforeAWindowAreLeftOut) {
  // The chunk's first tile still sees the second segment's last position; its second tile does not.
  const std::vector<StepRow> rows{{.token = 0, .count = 1, .first_position = 6999},
                                  {.token = 1, .count = 8, .first_position = 2607}};
  AttentionPlanner planner;
  const AttentionLimits limits{.tile_tokens = 4, .workers = 1, .head_sets = 1};
  constexpr std::uint32_t window = 2097;
  const auto& whole = planner.plan(rows, limits, window);
  const auto &single = whole.single, &multi = whole.multi;
  ASSERT_EQ(single.size(), 1u);
  EXPECT_EQ(single[0].first, (6999u - 2096) / 256);
  EXPECT_EQ(single[0].first + single[0].count, 28u);
  ASSERT_EQ(multi.size(), 2u);
  EXPECT_EQ(multi[0].token, 1u);
  EXPECT_EQ(multi[0].first, 1u);
  EXPECT_EQ(multi[1].first, 2u);
  for (const Unit& unit : multi) EXPECT_EQ(unit.first + unit.count, 11u);
  AttentionLimits several = limits;
  several.workers = 2;
  const auto& cut = planner.plan(rows, several, window);
  EXPECT_EQ(cut.partials, 9u + 10 + 9);
  for (const auto* list : {&cut.single, &cut.multi}) {
    for (const Unit& unit : *list) EXPECT_GE(unit.first, unit.token == 1 ? 1u : 2u);
  }
  EXPECT_EQ(planner.plan(std::vector<StepRow>{{0, 1, 2096}}, limits, window).single[0].first, 0u);
}

TEST(AttentionUnits, ManyShortRowsStayWhole) {
  std::vector<StepRow> rows;
  for (std::uint32_t i = 0; i < 64; ++i) rows.push_back({i, 1, 300});
  AttentionPlanner planner;
  const auto& plan = planner.plan(rows, {.tile_tokens = 8, .workers = 2, .head_sets = 3}, 0);
  EXPECT_EQ(plan.single.size(), 64u);
  EXPECT_EQ(plan.partials, 0u);
}

}  // namespace
}  // namespace millrace::engine
