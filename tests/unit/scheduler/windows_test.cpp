// Sequences of models with windowed cache groups, in pools that hold far fewer positions of a
// windowed group than the sequences have. The fake device checks that each row finds what it sees
// in every group.
#include <gtest/gtest.h>

#include "tests/unit/scheduler/fake_device.hpp"
#include "tests/unit/scheduler/random_families.hpp"

namespace millrace::engine {
namespace {

constexpr std::uint32_t tokens_a_page = 4;

class Windows : public testing::TestWithParam<std::uint32_t> {  // steps delivered late
 protected:
  static SchedulerOptions options() {
    return {.max_batch = 8, .step_tokens = 32, .prefill_chunk = 16, .prefix_cache = true};
  }
  // Group 0 holds 4,096 positions; a window of 10 positions has `pages` pages.
  static Loop loop(std::uint32_t pages, const SchedulerOptions& o = options()) {
    return {o, 1024, tokens_a_page, GetParam(), {{pages, 10}}};
  }
  static void expect_idle(const Loop& loop) {
    for (std::size_t group = 0; group < loop.pools.groups(); ++group) {
      EXPECT_EQ(loop.pools[group].used(), loop.pools[group].idle()) << "group " << group;
    }
  }
};
INSTANTIATE_TEST_SUITE_P(Late, Windows, testing::Values(0u, 1u));

// 10 + 2 * 16 + 2 * 4 positions are 13 pages.
constexpr std::uint32_t least_pages = 13;

TEST_P(Windows, ALongTextRunsInAPoolThatCannotHoldIt) {
  Loop l = loop(least_pages);
  const Tokens prompt = prompt_of(1, 1000);
  const SequenceId id = l.add(prompt, 500);
  l.run();
  EXPECT_EQ(l.drawn[id], expected(prompt, 500));
  EXPECT_EQ(l.tokens, 1499u);  // each once
  EXPECT_EQ(l.scheduler.pauses(), 0u);
  expect_idle(l);
}

TEST_P(Windows, PagesInUseStayBoundedWhileGenerating) {
  Loop l = loop(100);
  const Tokens prompt = prompt_of(1, 10);
  l.add(prompt, 800);
  std::uint32_t most = 0;
  while (l.step()) most = std::max(most, l.pools[1].used() - l.pools[1].idle());
  EXPECT_LE(most, l.pools.most_pages(1, 1000, 1));
  EXPECT_GE(most, 3u);
  expect_idle(l);
}

TEST_P(Windows, PagesOfAPromptStayForHitsUntilTheyAreNeeded) {
  Loop l = loop(100);
  const Tokens prompt = prompt_of(1, 200);
  l.add(prompt, 5);
  l.run();
  // Its end, and a place in its middle.
  for (const std::uint32_t common : {200u, 97u}) {
    Tokens other(prompt.begin(), prompt.begin() + common);
    other.push_back(7);
    const std::uint64_t before = l.tokens;
    const SequenceId id = l.add(other, 6);
    l.run();
    EXPECT_EQ(l.drawn[id], expected(other, 6));
    EXPECT_LE(l.tokens - before, common % tokens_a_page + 1 + 5) << common;
  }
}

// The tree has the path, but not what the next token sees of it: it is computed again, and then
// known again.
TEST_P(Windows, AHitThatLacksItsWindowIsShorterOrNone) {
  Loop l = loop(least_pages);
  const Tokens prompt = prompt_of(1, 200);
  l.add(prompt, 1);
  l.run();
  Tokens middle(prompt.begin(), prompt.begin() + 100);
  middle.push_back(7);
  std::uint64_t before = l.tokens;
  SequenceId id = l.add(middle, 6);
  l.run();
  EXPECT_EQ(l.drawn[id], expected(middle, 6));
  EXPECT_EQ(l.tokens - before, 106u);  // those pages of the window have gone
  before = l.tokens;
  middle.back() = 8;
  id = l.add(middle, 6);
  l.run();
  EXPECT_EQ(l.drawn[id], expected(middle, 6));
  EXPECT_EQ(l.tokens - before, 6u);
  expect_idle(l);
}

TEST_P(Windows, APausedSequenceGoesOnFromWhatIsStillKnown) {
  SchedulerOptions o = options();
  o.forecast_tokens = 0;
  Loop l(o, 60, tokens_a_page, GetParam(), {{26, 10}});
  const Tokens a = prompt_of(1, 40), b = prompt_of(2, 60);
  const SequenceId first = l.add(a, 120), second = l.add(b, 120);
  l.run();
  EXPECT_GT(l.scheduler.pauses(), 0u);
  EXPECT_EQ(l.drawn[first], expected(a, 120));
  EXPECT_EQ(l.drawn[second], expected(b, 120));
  EXPECT_LT(l.tokens, 40u + 119 + 60 + 119 + 100);
  expect_idle(l);
}

// The urgent one takes the only row, not the pages: what is left to the tree includes the window.
TEST_P(Windows, APausedSequenceGoesOnFromWhereItWas) {
  SchedulerOptions o = options();
  o.max_batch = 1;
  for (const int steps : {5, 40}) {  // within the prompt, and while it generates
    Loop l = loop(60, o);
    const Tokens slow = prompt_of(1, 300), fast = prompt_of(2, 30);
    const SequenceId patient = l.add(slow, 50, false, 0, 9);
    for (int i = 0; i < steps; ++i) l.step();
    const SequenceId urgent = l.add(fast, 5, false, 0, 0);
    l.run();
    EXPECT_EQ(l.scheduler.pauses(), 1u);
    EXPECT_EQ(l.drawn[patient], expected(slow, 50));
    EXPECT_EQ(l.drawn[urgent], expected(fast, 5));
    const std::uint32_t under_way = GetParam() * (steps == 5 ? 16 : 1);
    EXPECT_LE(l.tokens, 300u + 49 + 30 + 4 + tokens_a_page + under_way) << steps;
  }
}

// Only pages of the windowed group are short: the last sequence gives way, and all end.
TEST_P(Windows, AFullWindowedGroupPausesLikeAFullPool) {
  SchedulerOptions o = options();
  o.forecast_tokens = 0;
  o.step_tokens = 64;
  Loop l = loop(16, o);
  std::map<SequenceId, Tokens> want;
  for (std::uint32_t i = 0; i < 6; ++i) {
    const Tokens prompt = prompt_of(i, 3);
    want[l.add(prompt, 60)] = expected(prompt, 60);
  }
  l.run();
  for (const auto& [id, tokens] : want) EXPECT_EQ(l.drawn[id], tokens);
  EXPECT_GT(l.scheduler.pauses(), 0u);
  expect_idle(l);
}

// The window is in use by the first sequence, whose prompt has far to go.
TEST_P(Windows, SequencesThatShareAWindowPartWhenTheyGoOn) {
  Loop l = loop(40);
  const Tokens prompt = prompt_of(3, 150);
  const SequenceId id = l.add(prompt, 40, false, 3);
  l.run();
  for (SequenceId i = id; i <= id + 3; ++i) EXPECT_EQ(l.drawn[i], expected(prompt, 40));
  EXPECT_LE(l.tokens, 150u + 4 * 39 + 3 * (150 % tokens_a_page + 1));
  expect_idle(l);
}

TEST_P(Windows, AnUrgentSequenceTakesPagesOfAWindowedGroup) {
  Loop l = loop(least_pages);
  const Tokens slow = prompt_of(1, 100), fast = prompt_of(2, 30);
  const SequenceId patient = l.add(slow, 50, false, 0, 9);
  for (int i = 0; i < 12; ++i) l.step();
  const SequenceId urgent = l.add(fast, 5, false, 0, 0);
  while (l.wanted.contains(urgent)) ASSERT_TRUE(l.step());
  EXPECT_TRUE(l.wanted.contains(patient));
  l.run();
  EXPECT_EQ(l.drawn[patient], expected(slow, 50));
  EXPECT_EQ(l.drawn[urgent], expected(fast, 5));
  EXPECT_GT(l.scheduler.pauses(), 0u);
}

TEST(WindowsFit, TheSmallestPoolDecides) {
  const auto room = [](std::uint32_t pages) {
    const CachePools pools(tokens_a_page, Loop::groups(100, {{pages, 10}}), 16);
    return pools.most_positions();
  };
  EXPECT_EQ(room(least_pages), 400u);
  EXPECT_EQ(room(least_pages - 1), 48u);
  const CachePools pools(tokens_a_page, Loop::groups(100, {{least_pages - 1, 10}}), 16);
  EXPECT_TRUE(Scheduler::fits(pools, 40, 9));
  const Status status = Scheduler::fits(pools, 40, 10);
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code, Code::kv_exceeded);
  EXPECT_NE(status.error().message.find("holds 48"), std::string::npos) << status.error().message;
}

TEST_P(Windows, RandomFamiliesAlwaysEndRight) {
  run_random_families(120, GetParam(), true);
}

}  // namespace
}  // namespace millrace::engine
