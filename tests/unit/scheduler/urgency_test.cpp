#include <gtest/gtest.h>

#include "engine/core/scheduler/scheduler.hpp"
#include "tests/unit/scheduler/fake_device.hpp"

// Urgent sequences take rows and pages of less urgent ones.
namespace millrace::engine {
namespace {

class Urgency : public testing::TestWithParam<std::uint32_t> {};  // steps delivered late
INSTANTIATE_TEST_SUITE_P(Depth, Urgency, testing::Values(0u, 1u));

const SchedulerOptions sharing{.max_batch = 8,
                               .step_tokens = 64,
                               .prefill_chunk = 64,
                               .forecast_tokens = 8,
                               .prefix_cache = true};

// Adds a sequence of priority 1 for which there is not enough room: running sequences go on.
void expect_nobody_is_paused(Loop& loop, const Tokens& prompt) {
  const std::vector<SequenceId> before = loop.last_step;
  const SequenceId urgent = loop.add(prompt, 8, false, 0, 1);
  loop.step();
  EXPECT_EQ(loop.last_step, before);
  EXPECT_EQ(loop.scheduler.pauses(), 0u);
  loop.run();
  EXPECT_EQ(loop.drawn[urgent], expected(prompt, 8));
}

// An urgent sequence runs in the step after it was added, in place of the youngest of the least
// urgent. That one goes on when there is room, and no token changes.
TEST_P(Urgency, AnUrgentOneTakesTheRowOfALessUrgentOne) {
  Loop loop({.max_batch = 3, .step_tokens = 32, .prefill_chunk = 32}, 64, 4, GetParam());
  std::map<SequenceId, Tokens> want;
  const auto add = [&](std::uint32_t seed, std::uint32_t priority) {
    const SequenceId id = loop.add(prompt_of(seed, 5), 12, false, 0, priority);
    want[id] = expected(prompt_of(seed, 5), 12);
    return id;
  };
  const SequenceId late = add(1, 4), early = add(2, 3), last = add(3, 4);
  for (int i = 0; i < 4; ++i) loop.step();
  const SequenceId urgent = add(4, 0);
  loop.step();
  EXPECT_EQ(loop.last_step, (std::vector<SequenceId>{early, late, urgent}));
  EXPECT_EQ(loop.scheduler.pauses(), 1u);
  EXPECT_LT(urgent, early);
  EXPECT_LT(late, last);
  loop.run();
  EXPECT_EQ(loop.drawn, want);
  EXPECT_EQ(loop.scheduler.pauses(), 1u);
  EXPECT_EQ(loop.pool.used(), 0u);
}

TEST_P(Urgency, AnUrgentOneTakesThePagesOfLessUrgentOnesOnly) {
  for (const std::uint32_t priority : {2u, 1u, 3u}) {
    Loop loop({.max_batch = 8, .step_tokens = 64, .prefill_chunk = 64, .forecast_tokens = 8}, 12, 4,
              GetParam());
    std::map<SequenceId, Tokens> want;
    const auto add = [&](std::uint32_t seed, std::uint32_t size, std::uint32_t p) {
      const SequenceId id = loop.add(prompt_of(seed, size), 8, false, 0, p);
      want[id] = expected(prompt_of(seed, size), 8);
      return id;
    };
    const SequenceId first = add(1, 8, 2), second = add(2, 8, 2), third = add(3, 8, 2);
    loop.step();
    ASSERT_EQ(loop.last_step, (std::vector<SequenceId>{first, second, third}));
    const SequenceId other = add(4, 20, priority);  // wants seven pages; none of the twelve is left
    loop.step();
    const bool urgent = priority == 1;
    EXPECT_EQ(loop.last_step, urgent ? (std::vector<SequenceId>{first, other})
                                     : (std::vector<SequenceId>{first, second, third}));
    loop.run();
    EXPECT_EQ(loop.drawn, want);
    EXPECT_EQ(loop.scheduler.pauses(), urgent ? 2u : 0u);
    EXPECT_EQ(loop.pool.used(), 0u);
  }
}

TEST_P(Urgency, NobodyIsPausedWhenThatWouldNotBeEnough) {
  Loop loop({.max_batch = 8, .step_tokens = 64, .prefill_chunk = 64, .forecast_tokens = 8}, 12, 4,
            GetParam());
  const auto add = [&](std::uint32_t seed, std::uint32_t size, std::uint32_t priority) {
    return loop.add(prompt_of(seed, size), 8, false, 0, priority);
  };
  const SequenceId large = add(1, 24, 0), late = add(2, 8, 2);  // eight pages and four
  loop.step();
  ASSERT_EQ(loop.last_step, (std::vector<SequenceId>{large, late}));
  expect_nobody_is_paused(loop, prompt_of(3, 20));  // wants seven
  EXPECT_EQ(loop.pool.used(), 0u);
}

// Pages that an urgent sequence shares with rows that go on need no new room.
TEST_P(Urgency, SharedPagesDoNotKeepOthersFromBeingPaused) {
  Loop loop(sharing, 12, 4, GetParam());
  const SequenceId large = loop.add(prompt_of(1, 24), 8, false, 0, 0);
  const SequenceId late = loop.add(prompt_of(2, 8), 8, false, 0, 2);
  for (int i = 0; i < 2; ++i) loop.step();
  ASSERT_EQ(loop.last_step, (std::vector<SequenceId>{large, late}));
  Tokens prompt = prompt_of(1, 20);
  for (const TokenId own : {1u, 2u, 3u, 4u}) prompt.push_back(own);
  const SequenceId urgent = loop.add(prompt, 8, false, 0, 1);
  loop.step();
  EXPECT_EQ(loop.last_step, (std::vector<SequenceId>{large, urgent}));
  EXPECT_EQ(loop.scheduler.pauses(), 1u);
  loop.run();
  EXPECT_EQ(loop.drawn[urgent], expected(prompt, 8));
  EXPECT_EQ(loop.drawn[late], expected(prompt_of(2, 8), 8));
}

// Pages that it shares with a row that would be paused give no room, because they stay in use.
TEST_P(Urgency, NobodyIsPausedForASequenceThatSharesItsPages) {
  Loop loop(sharing, 12, 4, GetParam());
  const SequenceId small = loop.add(prompt_of(1, 4), 8, false, 0, 0);
  const SequenceId late = loop.add(prompt_of(2, 28), 8, false, 0, 2);
  for (int i = 0; i < 2; ++i) loop.step();
  ASSERT_EQ(loop.last_step, (std::vector<SequenceId>{small, late}));
  Tokens prompt = prompt_of(2, 28);
  for (TokenId own = 1; own <= 12; ++own) prompt.push_back(own);
  expect_nobody_is_paused(loop, prompt);  // wants twelve, seven of them known
}

// A page that two less urgent sequences share counts once.
TEST_P(Urgency, APageSharedByTwoCountsOnce) {
  Loop loop(sharing, 12, 4, GetParam());
  const SequenceId first = loop.add(prompt_of(1, 12), 8, false, 0, 0);
  const SequenceId second = loop.add(prompt_of(2, 13), 8, false, 0, 2);
  const SequenceId third = loop.add(prompt_of(2, 13), 8, false, 0, 2);
  const std::vector<SequenceId> all{first, second, third};
  for (int i = 0; i < 4 && loop.last_step != all; ++i) loop.step();
  ASSERT_EQ(loop.last_step, all);
  ASSERT_LE(loop.pool.used(), 10u);                 // three pages are shared
  expect_nobody_is_paused(loop, prompt_of(3, 24));  // wants eight
}

TEST_P(Urgency, UrgentOnesPauseNoMoreThanTheirFirstStepCanHold) {
  const SchedulerOptions options{.max_batch = 8, .step_tokens = 16, .prefill_chunk = 16};
  CachePools pools(4, Loop::groups(256), 64);
  Scheduler scheduler(options, pools);
  PlannedStep step;
  for (std::uint32_t i = 0; i < 8; ++i) scheduler.add({prompt_of(i, 1), 50, false, 3});
  ASSERT_TRUE(scheduler.plan(step));
  ASSERT_EQ(step.plan.rows.size(), 8u);
  for (std::uint32_t i = 0; i < 8; ++i) scheduler.add({prompt_of(i, 16), 50, false, 1});
  ASSERT_TRUE(scheduler.plan(step));
  EXPECT_EQ(scheduler.pauses(), 1u);
  EXPECT_EQ(step.plan.rows.size(), 8u);
}

}  // namespace
}  // namespace millrace::engine
