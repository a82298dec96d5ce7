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
                        .page_count = 10,
                        .device_slots = 2,
                        .attention = {.tile_tokens = 3, .workers = 1, .kv_heads = 2}};

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
  ASSERT_EQ(table.attention[0].single_units.count, 1u);
  EXPECT_EQ(slice(table.attention[0].single_units.offset, 8), (Words{0, 1, 0, 1, 0, 0, 0, 0}));
  ASSERT_EQ(table.attention[0].multi_units.count, 2u);
  EXPECT_EQ(slice(table.attention[0].multi_units.offset, 16),
            (Words{1, 3, 0, 1, 0, 0, 0, 0, 4, 2, 0, 1, 0, 0, 0, 0}));
  ASSERT_EQ(table.tiles.count, 2u);
  EXPECT_EQ(slice(table.tiles.offset, 4), (Words{1, 3, 4, 2}));
  const auto tables = slice(table.tables_at, 6);
  EXPECT_EQ(slice(tables[0], 1), (Words{7}));
  for (std::size_t t = 1; t < 6; ++t) EXPECT_EQ(slice(tables[t], 2), (Words{2, 5}));
  EXPECT_EQ(table.words.size(), tables[1] + 2u);
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
