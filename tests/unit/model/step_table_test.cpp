#include "engine/core/model/step_table.hpp"

#include <gtest/gtest.h>

#include <functional>

namespace millrace::engine {
namespace {

const StepLimits limits{.tokens = 8,
                        .outputs = 4,
                        .vocabulary = 100,
                        .context_tokens = 64,
                        .page_tokens = 16,
                        .groups = {{10, 0}},
                        .device_slots = 2};

// A row that decodes from a device slot, and a chunk of five tokens over two pages.
StepPlan good_plan() {
  StepPlan plan;
  plan.tokens = {11, 12, 13, 14, 15};
  plan.pages = {7, 2, 5};
  plan.outputs = {
      {0, OutputKind::logits}, {1, OutputKind::prompt_logprob}, {4, OutputKind::logits}};
  plan.rows = {{.sequence = 1,
                .first_position = 9,
                .count = 1,
                .device_slot = 1,
                .page_offset = 0,
                .page_count = 1,
                .output_offset = 0,
                .output_count = 1},
               {.sequence = 2,
                .first_position = 14,
                .count = 5,
                .token_offset = 0,
                .page_offset = 1,
                .page_count = 2,
                .output_offset = 1,
                .output_count = 2}};
  return plan;
}

TEST(StepTable, LaysOutWhatTheKernelsRead) {
  StepLowering lowering;
  StepTable table;
  StepPlan longer = good_plan();
  longer.tokens.push_back(1);
  longer.rows.push_back(
      {.sequence = 9, .first_position = 0, .count = 1, .token_offset = 3, .page_count = 1});
  ASSERT_TRUE(lowering.lower(longer, limits, table));  // must not affect the next plan
  const Status lowered = lowering.lower(good_plan(), limits, table);
  ASSERT_TRUE(lowered) << lowered.error().text();
  const auto slice = [&](std::uint32_t at, std::uint32_t count) {
    return std::vector<std::uint32_t>(table.words.begin() + at, table.words.begin() + at + count);
  };
  using Words = std::vector<std::uint32_t>;
  EXPECT_EQ(table.tokens, 6u);
  EXPECT_EQ(table.outputs, 3u);
  EXPECT_EQ(slice(table.ids_at, 6), (Words{0, 11, 12, 13, 14, 15}));
  EXPECT_EQ(slice(table.slots_at, 6), (Words{1, no_slot, no_slot, no_slot, no_slot, no_slot}));
  EXPECT_EQ(slice(table.positions_at, 6), (Words{9, 14, 15, 16, 17, 18}));
  EXPECT_EQ(slice(table.outputs_at, 3), (Words{0, 2, 5}));
  ASSERT_EQ(table.rows.size(), 2u);
  EXPECT_EQ(table.rows[1].token, 1u);
  EXPECT_EQ(table.rows[1].count, 5u);
  EXPECT_EQ(table.rows[1].first_position, 14u);
  const auto tables = slice(table.tables_at, 6);
  EXPECT_EQ(slice(tables[0], 1), (Words{7}));
  for (std::size_t t = 1; t < 6; ++t) EXPECT_EQ(slice(tables[t], 2), (Words{2, 5}));
  EXPECT_EQ(table.words.size(), tables[1] + 2u);
}

// Two rows in a cache with a windowed group, whose second row has given up its first pages.
StepLimits windowed_limits() {
  StepLimits out = limits;
  out.context_tokens = 20000;
  out.groups = {{2000, 0}, {6, 4}};
  out.windows = {4, 0};
  return out;
}

StepPlan windowed_plan(std::uint32_t second_position) {
  StepPlan plan;
  plan.tokens = {11, 12, 13};
  const std::uint32_t count = (second_position + 2 + 15) / 16;
  plan.pages = {3, 5, 4, 7};  // of the windowed group, then of group 0
  for (std::uint32_t i = 0; i < count; ++i) plan.pages.push_back(i);
  plan.rows = {{.sequence = 8, .first_position = 3, .count = 1, .page_offset = 3, .page_count = 1},
               {.sequence = 9,
                .first_position = second_position,
                .count = 2,
                .token_offset = 1,
                .page_offset = 4,
                .page_count = count}};
  const std::uint32_t seen = (second_position - 3) / 16;
  plan.windowed = {{0, 0, 1}, {1, seen, count - seen}};
  return plan;
}

// Near the beginning, and so far on that the windowed table would begin before the array.
TEST(StepTable, AWindowedGroupHasItsOwnTables) {
  for (const std::uint32_t position : {47u, 16015u}) {
    StepTable table;
    const StepPlan plan = windowed_plan(position);
    ASSERT_TRUE(StepLowering().lower(plan, windowed_limits(), table).has_value());
    const auto page = [&](std::size_t window, std::uint32_t token, std::uint32_t index) {
      const std::uint32_t tables_at = table.attention[window].tables_at;
      EXPECT_EQ(tables_at - table.attention[window].positions_at, 3u);
      return table.words.at(table.words.at(tables_at + token) + index);
    };
    for (const std::size_t window : {0u, 1u}) {
      for (std::uint32_t t = 0; t < 3; ++t) {
        EXPECT_EQ(table.words[table.attention[window].positions_at + t],
                  table.words[table.positions_at + t]);
      }
    }
    const std::uint32_t last = (position + 1) / 16;
    EXPECT_EQ(page(0, 0, 0), 3u);
    EXPECT_EQ(page(1, 0, 0), 7u);
    for (const std::uint32_t token : {1u, 2u}) {
      EXPECT_EQ(page(0, token, last - 1), 5u);
      EXPECT_EQ(page(0, token, last), 4u);
      EXPECT_EQ(page(1, token, last), last);
      EXPECT_EQ(page(1, token, 0), 0u);
    }
  }
}

TEST(StepTable, WithoutTablesOfItsOwnAWindowedGroupHasThePagesOfTheFirst) {
  StepPlan plan = good_plan();
  StepLimits two = windowed_limits();
  two.groups[1].pages = 8;
  StepTable table;
  ASSERT_TRUE(StepLowering().lower(plan, two, table).has_value());
  EXPECT_EQ(table.attention[0].tables_at, table.tables_at);
  EXPECT_EQ(table.attention[1].tables_at, table.tables_at);
  two.groups[1].pages = 7;  // the plan uses page 7
  EXPECT_FALSE(StepLowering().lower(plan, two, table).has_value());
}

TEST(StepTable, BrokenTablesOfWindowedGroupsAreRefused) {
  struct Case {
    std::string part;
    std::function<void(StepPlan&)> change;
  };
  const std::vector<Case> cases{
      {"of other cache groups", [](StepPlan& p) { p.windowed.pop_back(); }},
      {"do not cover", [](StepPlan& p) { p.windowed[1].count = 1; }},
      {"lacks pages that it sees",
       [](StepPlan& p) {
         ++p.windowed[1].first;
         --p.windowed[1].count;
       }},
      {"pages outside", [](StepPlan& p) { p.windowed[1].offset = 7; }},
      {"no such page", [](StepPlan& p) { p.pages[1] = 6; }},
  };
  for (const Case& one : cases) {
    StepPlan plan = windowed_plan(47);
    one.change(plan);
    StepTable table;
    const Status status = StepLowering().lower(plan, windowed_limits(), table);
    ASSERT_FALSE(status.has_value()) << one.part;
    EXPECT_EQ(status.error().code, Code::internal);
    EXPECT_NE(status.error().message.find(one.part), std::string::npos) << status.error().text();
  }
}

TEST(StepTable, BrokenPlansAreRefused) {
  struct Case {
    std::string part;
    std::function<void(StepPlan&)> change;
  };
  const std::vector<Case> cases{
      {"without tokens", [](StepPlan& p) { p.clear(); }},
      {"no token", [](StepPlan& p) { p.rows[1].count = 0; }},
      {"tokens outside", [](StepPlan& p) { p.rows[1].token_offset = 1; }},
      {"tokens outside", [](StepPlan& p) { p.rows[1].token_offset = 0xfffffffe; }},
      {"no such device slot", [](StepPlan& p) { p.rows[0].device_slot = 2; }},
      {"several tokens", [](StepPlan& p) { p.rows[1].device_slot = 0; }},
      {"beyond the model's context", [](StepPlan& p) { p.rows[1].first_position = 60; }},
      {"do not cover", [](StepPlan& p) { p.rows[1].page_count = 1; }},
      {"pages outside", [](StepPlan& p) { p.rows[1].page_offset = 2; }},
      {"no such page", [](StepPlan& p) { p.pages[2] = 10; }},
      {"outputs outside", [](StepPlan& p) { p.rows[1].output_count = 3; }},
      {"beyond its tokens", [](StepPlan& p) { p.outputs[2].offset = 5; }},
      {"are the most", [](StepPlan& p) { p.rows.insert(p.rows.end(), 3, p.rows[0]); }},
  };
  for (const Case& one : cases) {
    StepPlan plan = good_plan();
    one.change(plan);
    StepTable table;
    const Status status = StepLowering().lower(plan, limits, table);
    ASSERT_FALSE(status.has_value()) << one.part;
    EXPECT_EQ(status.error().code, Code::internal);
    EXPECT_NE(status.error().message.find(one.part), std::string::npos) << status.error().text();
  }
}

TEST(StepTable, AnIdOutsideTheVocabularyIsTheCallersFault) {
  StepPlan plan = good_plan();
  plan.tokens[2] = 100;
  StepTable table;
  const Status status = StepLowering().lower(plan, limits, table);
  ASSERT_FALSE(status.has_value());
  EXPECT_EQ(status.error().code, Code::invalid_token);
  EXPECT_NE(status.error().message.find("100"), std::string::npos);
}

}  // namespace
}  // namespace millrace::engine
