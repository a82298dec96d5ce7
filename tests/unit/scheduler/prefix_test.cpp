// Sequences with a common beginning, over the fake device: a page that is read too early, too late
// or from another path shows as a wrong token.
#include <gtest/gtest.h>

#include "tests/unit/scheduler/fake_device.hpp"
#include "tests/unit/scheduler/random_families.hpp"

namespace millrace::engine {
namespace {

Tokens joined(Tokens a, const Tokens& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

class Prefix : public testing::TestWithParam<std::uint32_t> {  // steps delivered late
 protected:
  static SchedulerOptions options() {
    SchedulerOptions o{.max_batch = 8, .step_tokens = 64, .prefill_chunk = 64};
    o.prefix_cache = true;
    o.fingerprint = "f00d";
    return o;
  }
  static std::uint32_t idle_after(Loop& loop) {
    EXPECT_EQ(loop.pool.used(), loop.pool.idle());
    EXPECT_EQ(loop.pool.idle(), loop.scheduler.prefix_pages());
    return loop.pool.idle();
  }
};
INSTANTIATE_TEST_SUITE_P(Depth, Prefix, testing::Values(0u, 1u));

TEST_P(Prefix, AnExactHitComputesTheLastToken) {
  for (const std::uint32_t length : {31u, 32u, 33u}) {
    Loop loop(options(), 64, 4, GetParam());
    const Tokens prompt = prompt_of(1, length);
    const SequenceId a = loop.add(prompt, 1);
    loop.run();
    EXPECT_EQ(loop.tokens, length);
    const SequenceId b = loop.add(prompt, 1);
    loop.run();
    // Whole pages are shared; of 32 tokens the last page's three others are too few to copy.
    EXPECT_EQ(loop.tokens - length, length == 32 ? 4u : length % 4);
    EXPECT_EQ(loop.drawn[b], loop.drawn[a]);
    EXPECT_EQ(loop.drawn[a], expected(prompt, 1));
  }
}

TEST_P(Prefix, AForkInsideAPageCopiesItAndHarmsNobody) {
  Loop loop(options(), 64, 16, GetParam());
  const Tokens common = prompt_of(1, 16 + 9);
  const Tokens a = joined(common, prompt_of(2, 30)), b = joined(common, prompt_of(3, 30));
  const SequenceId first = loop.add(a, 3);
  loop.run();
  const std::uint64_t before = loop.tokens;
  const SequenceId second = loop.add(b, 3);
  const SequenceId again = loop.add(a, 3);
  loop.run();
  EXPECT_EQ(loop.copies, 1u);
  EXPECT_EQ(loop.tokens - before, (30u + 2) + (55u % 16 + 2));
  EXPECT_EQ(loop.drawn[first], expected(a, 3));
  EXPECT_EQ(loop.drawn[second], expected(b, 3));
  EXPECT_EQ(loop.drawn[again], expected(a, 3));
}

TEST_P(Prefix, JobsOfOnePrefixInOneStepComputeItOnce) {
  Loop loop(options(), 128, 4, GetParam());
  const Tokens common = prompt_of(1, 100);
  std::map<SequenceId, Tokens> want;
  for (std::uint32_t i = 0; i < 6; ++i) {
    const Tokens prompt = joined(common, {500 + i, 1, 2});
    want[loop.add(prompt, 4)] = expected(prompt, 4);
  }
  const Tokens apart = prompt_of(2, 9);  // has no common beginning, so it does not wait
  want[loop.add(apart, 4)] = expected(apart, 4);
  loop.step();
  EXPECT_EQ(loop.scheduler.running(), 1u);  // the leader takes the whole budget
  loop.step();
  EXPECT_EQ(loop.scheduler.running(), 2u);
  loop.run();
  EXPECT_EQ(loop.drawn, want);
  EXPECT_EQ(loop.tokens, 100u + 6 * (3 + 3) + 9 + 3);
  idle_after(loop);
}

TEST_P(Prefix, ACompletedGenerationIsTheNextTurnsBeginning) {
  Loop loop(options(), 64, 4, GetParam());
  const Tokens turn = prompt_of(1, 21);
  const SequenceId a = loop.add(turn, 12);
  loop.run();
  const Tokens next = joined(joined(turn, loop.drawn[a]), prompt_of(2, 5));
  const std::uint64_t before = loop.tokens;
  const SequenceId b = loop.add(next, 1);
  loop.run();
  EXPECT_EQ(loop.tokens - before, 38u - 32u);  // 33 positions with keys and values, in whole pages
  EXPECT_EQ(loop.drawn[b], expected(next, 1));
}

// The step that was running when the sequence stopped writes beyond its last accepted token.
TEST_P(Prefix, WhatAStoppedSequenceWroteBeyondItsEndIsNeverPublished) {
  Loop loop(options(), 64, 4, GetParam());
  const Tokens prompt = prompt_of(1, 5);
  for (std::uint32_t stop = 1; stop < 12; ++stop) {
    const SequenceId id = loop.add(prompt, 20);
    loop.stops_at[id] = stop;
    loop.run();
    const Tokens accepted = joined(prompt, loop.drawn[id]);
    EXPECT_EQ(accepted.size(), 5 + stop);
    EXPECT_LE(loop.scheduler.prefix_pages(), accepted.size() / 4);
  }
}

TEST_P(Prefix, AFollowUpAfterAnAbortStartsWhereTheAbortedOneWas) {
  Loop loop(options(), 64, 4, GetParam());
  const Tokens prompt = prompt_of(1, 200);
  const SequenceId a = loop.add(prompt, 5);
  loop.step();
  loop.step();
  loop.finish(a);  // in its second or third chunk of 64
  loop.run();
  const std::uint64_t before = loop.tokens;
  const SequenceId b = loop.add(prompt, 5);
  loop.run();
  EXPECT_EQ(loop.drawn[b], expected(prompt, 5));
  EXPECT_EQ(loop.tokens - before, 204u - (GetParam() == 0 ? 128u : 64u));
}

TEST_P(Prefix, FollowersOfAnAbortedLeaderGoOnFromWhatItWrote) {
  for (std::uint32_t when = 0; when < 12; ++when) {
    Loop loop(options(), 128, 4, GetParam());
    const Tokens prompt = prompt_of(1, 200);
    const SequenceId leader = loop.add(prompt, 5);
    const SequenceId b = loop.add(prompt, 5), c = loop.add(prompt, 5);
    for (std::uint32_t i = 0; i < when; ++i) loop.step();
    loop.finish(leader);
    loop.run();
    EXPECT_EQ(loop.drawn[b], expected(prompt, 5)) << when;
    EXPECT_EQ(loop.drawn[c], expected(prompt, 5)) << when;
    EXPECT_LT(loop.tokens, 200u + 64 + 3 * (4 + 5)) << when;
    idle_after(loop);
  }
}

TEST_P(Prefix, APromptToBeScoredReadsNoCachedPage) {
  Loop loop(options(), 64, 4, GetParam());
  const Tokens prompt = prompt_of(1, 40);
  loop.add(prompt, 3);
  loop.run();
  const std::uint64_t before = loop.tokens;
  const SequenceId with_draws = loop.add(prompt, 3, true);
  const SequenceId scored = loop.add(prompt, 0, true);
  loop.run();
  EXPECT_EQ(loop.tokens - before, 2u * 40 + 2);
  EXPECT_EQ(loop.scored[with_draws].size(), 39u);
  EXPECT_EQ(loop.scored[scored].size(), 39u);
  EXPECT_EQ(loop.drawn[with_draws], expected(prompt, 3));
  EXPECT_EQ(idle_after(loop), 10u);  // computed again, kept once
}

TEST_P(Prefix, IdlePagesGoBeforeAnybodyIsPaused) {
  Loop loop(options(), 24, 4, GetParam());
  for (std::uint32_t i = 0; i < 20; ++i) {
    const Tokens prompt = prompt_of(i, 40);
    const SequenceId id = loop.add(prompt, 20);
    loop.run();
    ASSERT_EQ(loop.drawn[id], expected(prompt, 20));
  }
  EXPECT_EQ(loop.scheduler.pauses(), 0u);
  EXPECT_GT(idle_after(loop), 10u);
}

TEST_P(Prefix, APausedSequenceGoesOnFromWhatIsStillKnown) {
  SchedulerOptions o = options();
  o.forecast_tokens = 0;
  Loop loop(o, 40, 4, GetParam());
  const Tokens a = prompt_of(1, 40), b = prompt_of(2, 60);
  const SequenceId first = loop.add(a, 70), second = loop.add(b, 70);
  loop.run();
  EXPECT_GT(loop.scheduler.pauses(), 0u);
  EXPECT_EQ(loop.drawn[first], expected(a, 70));
  EXPECT_EQ(loop.drawn[second], expected(b, 70));
  EXPECT_LT(loop.tokens, 40u + 69 + 60 + 69 + 100);
}

// A step that failed is never completed, so no page that it wrote is published.
TEST_P(Prefix, WhatAFailedStepWroteIsNeverPublished) {
  CachePools pools(4, Loop::groups(64), 64);
  Scheduler scheduler(options(), pools);
  PlannedStep step;
  const SequenceId a = scheduler.add({prompt_of(1, 100), 5});
  ASSERT_TRUE(scheduler.plan(step));
  scheduler.completed(step);
  ASSERT_TRUE(scheduler.plan(step));
  scheduler.finish(a);
  EXPECT_EQ(scheduler.prefix_pages(), 16u);
  EXPECT_EQ(pools[0].used(), 16u);
}

// If that step fails, the sequence that reads the copy fails with it. The prompt to be scored takes
// all outputs of the step, and the other sequence has only its last token left.
TEST_P(Prefix, APageIsCopiedForARowOfTheSameStepOrNotAtAll) {
  SchedulerOptions o = options();
  o.step_outputs = o.max_batch;
  for (const std::uint32_t length : {3u, 40u}) {
    Loop loop(o, 64, 16, GetParam());
    const Tokens common = prompt_of(1, 16 + 9);
    loop.add(joined(common, prompt_of(2, 30)), 1);
    loop.run();
    const SequenceId scored = loop.add(prompt_of(3, length), 0, true);
    const Tokens forked = joined(common, {7});
    const SequenceId fork = loop.add(forked, 3);
    loop.step();
    EXPECT_EQ(loop.last_step, (std::vector<SequenceId>{scored, fork}));
    loop.run();
    EXPECT_EQ(loop.copies, length == 3 ? 1u : 0u);
    EXPECT_EQ(loop.scored[scored].size(), length - 1);
    EXPECT_EQ(loop.drawn[fork], expected(forked, 3));
  }
}

// A sequence is paused and admitted again while its old step runs: that step wrote to other pages.
TEST_P(Prefix, AStepOfAnEarlierAdmissionIsNotTakenForALaterOne) {
  SchedulerOptions o = options();
  o.forecast_tokens = 0;
  CachePools pools(4, Loop::groups(12), 64);
  Scheduler scheduler(o, pools);
  PlannedStep first, second, third;
  const SequenceId a = scheduler.add({prompt_of(1, 8), 30});
  ASSERT_TRUE(scheduler.plan(first));
  scheduler.add({prompt_of(2, 36), 0});
  ASSERT_TRUE(scheduler.plan(second));  // the younger one's whole prompt is planned
  scheduler.completed(first);
  for (int i = 0; i < 5; ++i) {
    scheduler.deliver(a, 1);
    ASSERT_TRUE(scheduler.plan(third));
  }
  EXPECT_EQ(scheduler.pauses(), 1u);  // the old one wants a fourth page, the young one pauses
  const std::uint32_t known = scheduler.prefix_pages();
  scheduler.completed(second);
  EXPECT_EQ(scheduler.prefix_pages(), known);
}

TEST_P(Prefix, RandomFamiliesAlwaysEndRight) {
  run_random_families(80, GetParam(), false);
}

}  // namespace
}  // namespace millrace::engine
