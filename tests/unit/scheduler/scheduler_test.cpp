#include "engine/core/scheduler/scheduler.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include "tests/unit/scheduler/fake_device.hpp"

namespace millrace::engine {
namespace {

class Scheduling : public testing::TestWithParam<std::uint32_t> {};  // steps delivered late
INSTANTIATE_TEST_SUITE_P(Depth, Scheduling, testing::Values(0u, 1u));

TEST_P(Scheduling, OneSequenceInChunks) {
  Loop loop({.max_batch = 4, .step_tokens = 16, .prefill_chunk = 5}, 16, 4, GetParam());
  const Tokens prompt = prompt_of(1, 23);
  const SequenceId id = loop.add(prompt, 9);
  loop.run();
  EXPECT_EQ(loop.drawn[id], expected(prompt, 9));
  EXPECT_EQ(loop.rows.size(), 5u + 8u);  // five chunks, the last of which draws; eight more draws
  EXPECT_EQ(loop.pool.used(), 0u);
}

TEST_P(Scheduling, DecodingRowsAreInEveryStepAndComeFirst) {
  const SchedulerOptions options{.max_batch = 4, .step_tokens = 8, .prefill_chunk = 8};
  CachePools pools(4, Loop::groups(64), 64);
  Scheduler scheduler(options, pools);
  PlannedStep step;
  const SequenceId a = scheduler.add({prompt_of(1, 3), 50});
  ASSERT_TRUE(scheduler.plan(step));
  scheduler.deliver(a, 5);
  const SequenceId b = scheduler.add({prompt_of(2, 20), 50});
  for (int chunk = 0; chunk < 3; ++chunk) {
    ASSERT_TRUE(scheduler.plan(step));
    ASSERT_EQ(step.plan.rows.size(), 2u);  // the new row joined at once
    EXPECT_EQ(step.plan.rows[0].sequence, a);
    EXPECT_EQ(step.plan.rows[0].count, 1u);
    EXPECT_EQ(step.plan.rows[1].sequence, b);
    EXPECT_EQ(step.plan.rows[1].count, chunk < 2 ? 7u : 6u);
    EXPECT_EQ(step.outputs.size(), chunk < 2 ? 1u : 2u);
    scheduler.deliver(a, 5);
  }
}

TEST_P(Scheduling, ManySequencesWithEarlyStops) {
  Loop loop({.max_batch = 8, .step_tokens = 24, .prefill_chunk = 7}, 64, 4, GetParam());
  Random random(3);
  std::map<SequenceId, Tokens> want;
  for (std::uint32_t i = 0; i < 60; ++i) {
    const Tokens prompt = prompt_of(i, 1 + random() % 40);
    const std::uint32_t count = 1 + random() % 20;
    const SequenceId id = loop.add(prompt, count);
    const std::uint32_t stop = 1 + random() % 30;
    loop.stops_at[id] = stop;
    want[id] = expected(prompt, std::min(stop, count));
    if (i % 3 == 0) loop.step();
  }
  loop.run();
  EXPECT_EQ(loop.drawn, want);
  EXPECT_EQ(loop.pool.used(), 0u);
  EXPECT_EQ(*std::max_element(loop.rows.begin(), loop.rows.end()), 8u);
}

TEST_P(Scheduling, UnderPagePressureThePausedGoOnUnseen) {
  // 12 pages of 4 for sequences that grow to 10 pages each.
  Loop loop({.max_batch = 8, .step_tokens = 32, .prefill_chunk = 8, .forecast_tokens = 2}, 12, 4,
            GetParam());
  std::map<SequenceId, Tokens> want;
  for (std::uint32_t i = 0; i < 10; ++i) {
    const Tokens prompt = prompt_of(i, 6 + i);
    want[loop.add(prompt, 24)] = expected(prompt, 24);
  }
  loop.run();
  EXPECT_EQ(loop.drawn, want);
  EXPECT_GT(loop.scheduler.pauses(), 0u);
  EXPECT_EQ(loop.pool.used(), 0u);
}

TEST_P(Scheduling, ThePausedOneIsTheYoungest) {
  const SchedulerOptions options{
      .max_batch = 3, .step_tokens = 32, .prefill_chunk = 32, .forecast_tokens = 0};
  CachePools pools(4, Loop::groups(6), 64);
  Scheduler scheduler(options, pools);
  PlannedStep step;
  std::vector<SequenceId> ids;
  for (std::uint32_t i = 0; i < 3; ++i) ids.push_back(scheduler.add({prompt_of(i, 7), 9}));
  for (int i = 0; i < 2; ++i) {
    ASSERT_TRUE(scheduler.plan(step));
    ASSERT_EQ(step.plan.rows.size(), 3u);
    for (const SequenceId id : ids) scheduler.deliver(id, 1);
  }
  ASSERT_TRUE(scheduler.plan(step));  // each wants a third page, none is free
  ASSERT_EQ(step.plan.rows.size(), 2u);
  EXPECT_EQ(step.plan.rows[0].sequence, ids[0]);
  EXPECT_EQ(step.plan.rows[1].sequence, ids[1]);
  EXPECT_EQ(scheduler.pauses(), 1u);
  EXPECT_EQ(scheduler.waiting(), 1u);
}

TEST_P(Scheduling, AdmissionKeepsRoomToGrowAndTheOrder) {
  const SchedulerOptions options{
      .max_batch = 8, .step_tokens = 64, .prefill_chunk = 64, .forecast_tokens = 8};
  CachePools pools(4, Loop::groups(10), 64);
  Scheduler scheduler(options, pools);
  PlannedStep step;
  const SequenceId first = scheduler.add({prompt_of(0, 8), 100});  // 8 + 7 positions: 4 pages
  scheduler.add({prompt_of(1, 20), 100});                          // 7 pages ahead: waits
  scheduler.add({prompt_of(2, 4), 1});                             // would fit, but is not first
  ASSERT_TRUE(scheduler.plan(step));
  ASSERT_EQ(step.plan.rows.size(), 1u);
  EXPECT_EQ(scheduler.waiting(), 2u);
  scheduler.finish(first);
  ASSERT_TRUE(scheduler.plan(step));
  EXPECT_EQ(step.plan.rows.size(), 2u);
}

// Rows that draw four tokens need two of the forty pages; before any has ended, each is expected to
// draw 64.
TEST_P(Scheduling, AdmissionLearnsHowLongSequencesBecome) {
  const SchedulerOptions options{.max_batch = 16, .step_tokens = 64, .prefill_chunk = 64};
  const auto most_rows = [&](std::uint32_t stop) {
    Loop loop(options, 40, 4, GetParam());
    std::map<SequenceId, Tokens> want;
    for (std::uint32_t i = 0; i < 120; ++i) {
      const SequenceId id = loop.add(prompt_of(i, 4), 100);
      loop.stops_at[id] = stop;
      want[id] = expected(prompt_of(i, 4), stop);
    }
    for (int i = 0; i < 4; ++i) loop.step();
    EXPECT_LE(loop.rows.back(), 3u) << stop;
    loop.run();
    EXPECT_EQ(loop.drawn, want);
    return *std::max_element(loop.rows.begin(), loop.rows.end());
  };
  EXPECT_GE(most_rows(4), 12u);
  EXPECT_LE(most_rows(60), 4u);
}

// Sequences that become longer than forecast are paused; after them the forecast is better.
TEST_P(Scheduling, AdmissionLearnsToLeaveRoom) {
  Loop loop({.max_batch = 16, .step_tokens = 64, .prefill_chunk = 64, .forecast_tokens = 1}, 40, 4,
            GetParam());
  std::uint64_t pauses = 0;
  for (std::uint32_t wave = 0; wave < 6; ++wave) {
    pauses = loop.scheduler.pauses();
    for (std::uint32_t i = 0; i < 16; ++i) loop.add(prompt_of(wave * 16 + i, 4), 29);
    loop.run();
    if (wave == 0) {
      EXPECT_GT(loop.scheduler.pauses(), 10u);
    }
  }
  EXPECT_EQ(loop.scheduler.pauses(), pauses);
}

TEST_P(Scheduling, SamplesShareTheWholePagesOfTheirPrompt) {
  Loop loop({.max_batch = 4, .step_tokens = 64, .prefill_chunk = 64}, 32, 4, GetParam());
  const Tokens prompt = prompt_of(5, 18);
  const SequenceId id = loop.add(prompt, 6, false, 3);
  for (std::uint32_t i = 0; i < 2 + loop.depth; ++i) loop.step();
  EXPECT_EQ(loop.rows.front(), 1u);  // the others wait until the prompt's step has come back
  EXPECT_EQ(loop.rows.back(), 4u);
  // 18 tokens: four whole pages once, and a page of their own for each of the four.
  EXPECT_EQ(loop.pool.used(), 4u + 4u);
  loop.run();
  for (SequenceId i = id; i < id + 4; ++i) EXPECT_EQ(loop.drawn[i], expected(prompt, 6));
  EXPECT_EQ(loop.pool.used(), 0u);
}

TEST_P(Scheduling, SamplesUnderPressure) {
  Loop loop({.max_batch = 8, .step_tokens = 32, .prefill_chunk = 6, .forecast_tokens = 1}, 11, 4,
            GetParam());
  std::map<SequenceId, Tokens> want;
  for (std::uint32_t i = 0; i < 6; ++i) {
    const Tokens prompt = prompt_of(i, 9 + i);
    const SequenceId id = loop.add(prompt, 20, false, 4);
    for (SequenceId s = id; s < id + 5; ++s) want[s] = expected(prompt, 20);
  }
  loop.run();
  EXPECT_EQ(loop.drawn, want);
  EXPECT_GT(loop.scheduler.pauses(), 0u);
  EXPECT_EQ(loop.pool.used(), 0u);
}

TEST_P(Scheduling, PromptLogprobsAreTakenOnceEachInOrder) {
  Loop loop({.max_batch = 4,
             .step_tokens = 16,
             .prefill_chunk = 8,
             .step_outputs = 6,
             .forecast_tokens = 1},
            9, 4, GetParam());
  const Tokens prompt = prompt_of(5, 21);
  const SequenceId other = loop.add(prompt_of(6, 3), 20);
  const SequenceId draws = loop.add(prompt, 8, true);
  const SequenceId scores = loop.add(prompt, 0, true);
  loop.run();
  std::vector<std::uint32_t> want;
  for (std::uint32_t p = 1; p < 21; ++p) want.push_back(p);
  EXPECT_EQ(loop.scored[draws], want);
  EXPECT_EQ(loop.drawn[draws], expected(prompt, 8));
  EXPECT_EQ(loop.drawn[other], expected(prompt_of(6, 3), 20));
  EXPECT_TRUE(loop.drawn[scores].empty());
  EXPECT_EQ(loop.pool.used(), 0u);
}

TEST_P(Scheduling, FinishAtEveryStageDisturbsNobody) {
  std::uint32_t stages = 0;
  for (std::uint32_t when = 0; when < 40; ++when) {
    Loop loop({.max_batch = 3, .step_tokens = 8, .prefill_chunk = 4, .forecast_tokens = 1}, 10, 4,
              GetParam());
    const Tokens a = prompt_of(1, 9), b = prompt_of(2, 14);
    const SequenceId first = loop.add(a, 12);
    const SequenceId victim = loop.add(b, 15, false, 2);
    const SequenceId last = loop.add(a, 12);
    for (std::uint32_t i = 0; i < when; ++i) loop.step();
    stages += loop.wanted.contains(victim) ? 1 : 0;
    for (SequenceId id = victim; id < victim + 3; ++id) loop.finish(id);
    loop.run();
    ASSERT_EQ(loop.drawn[first], expected(a, 12)) << when;
    ASSERT_EQ(loop.drawn[last], expected(a, 12)) << when;
    ASSERT_EQ(loop.pool.used(), 0u) << when;
  }
  EXPECT_GT(stages, 15u);
}

TEST_P(Scheduling, RandomLoadsAlwaysEndRight) {
  for (std::uint32_t seed = 0; seed < 60; ++seed) {
    Random random(seed);
    const std::uint32_t page = 1u << random() % 4;
    const std::uint32_t batch = 1 + random() % 9;
    const SchedulerOptions options{.max_batch = batch,
                                   .step_tokens = batch + random() % 20,
                                   .prefill_chunk = 1 + random() % 12,
                                   .step_outputs = batch + random() % 3,
                                   .forecast_tokens = random() % 8};
    Loop loop(options, (60 + page - 1) / page + random() % 20, page, GetParam());
    std::map<SequenceId, Tokens> want;
    for (std::uint32_t i = 0; i < 30; ++i) {
      const Tokens prompt = prompt_of(seed * 100 + i, 1 + random() % 30);
      const std::uint32_t count = 1 + random() % 30, siblings = random() % 4 ? 0 : random() % 5;
      ASSERT_TRUE(Scheduler::fits(loop.pools, prompt.size(), count));
      const SequenceId id =
          loop.add(prompt, count, random() % 4 == 0, siblings, seed % 3 == 0 ? 2 : random() % 3);
      for (SequenceId s = id; s <= id + siblings; ++s) {
        const std::uint32_t stop = 1 + random() % 40;
        loop.stops_at[s] = stop;
        want[s] = expected(prompt, std::min(stop, count));
      }
      for (std::uint32_t k = random() % 4; k > 0; --k) loop.step();
    }
    loop.run();
    ASSERT_EQ(loop.drawn, want) << "seed " << seed;
    ASSERT_EQ(loop.pool.used(), 0u) << "seed " << seed;
  }
}

TEST(Scheduler, WhatCanNeverFitIsRefusedWithTheNumbers) {
  const CachePools pools(16, Loop::groups(4), 64);
  EXPECT_TRUE(Scheduler::fits(pools, 60, 5));  // the last token drawn needs no room
  const Status status = Scheduler::fits(pools, 60, 6);
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code, Code::kv_exceeded);
  EXPECT_NE(status.error().message.find("65"), std::string::npos);
  EXPECT_NE(status.error().message.find("64"), std::string::npos);
}

TEST(LengthForecast, IsTheMeanOfWhatEndedAndAQuarterOfItBeyond) {
  LengthForecast lengths(64);
  EXPECT_EQ(lengths.ahead(0), 64u);
  EXPECT_EQ(lengths.ahead(60), 16u);
  EXPECT_EQ(lengths.ahead(1000), 16u);
  lengths.ended(14);
  EXPECT_EQ(lengths.mean(), 54u);  // a fifth of the way, because the guess counts like four ends
  for (int i = 0; i < 100; ++i) lengths.ended(10);
  EXPECT_EQ(lengths.mean(), 12u);
  for (int i = 0; i < 400; ++i) lengths.ended(i % 2 == 0 ? 100 : 300);
  EXPECT_NEAR(lengths.mean(), 200.0, 5.0);
  EXPECT_EQ(LengthForecast(0).ahead(7), 0u);
}

// However small the budget is, rows that decode are in every step, and prompts go on beside them.
TEST(Scheduler, ASmallerBudgetShrinksTheChunksAlone) {
  CachePools pools(4, Loop::groups(256), 64);
  Scheduler scheduler(
      {.max_batch = 32, .step_tokens = 64, .least_prefill_tokens = 3, .prefill_chunk = 64}, pools);
  const auto planned = [&](std::uint32_t budget) {
    scheduler.set_step_tokens(budget);
    PlannedStep step;
    EXPECT_TRUE(scheduler.plan(step));
    scheduler.completed(step);
    for (const PlannedOutput& output : step.outputs) scheduler.deliver(output.sequence, 7);
    return step.plan.tokens.size();
  };
  scheduler.add({prompt_of(0, 60), 1});
  EXPECT_EQ(planned(10), 10u);
  EXPECT_EQ(planned(0), 3u) << "fewer than the rows that may run at once";
  EXPECT_EQ(planned(1'000), 47u) << "the rest of the prompt";
  scheduler.add({prompt_of(1, 4), 9});
  scheduler.add({prompt_of(2, 4), 9});
  EXPECT_EQ(planned(1'000), 8u);
  scheduler.add({prompt_of(3, 200), 1});
  EXPECT_EQ(planned(0), 2u + 3u);
  EXPECT_EQ(planned(1), 2u + 3u);
  EXPECT_EQ(planned(20), 20u);
  EXPECT_EQ(planned(1'000), 64u);
}

}  // namespace
}  // namespace millrace::engine
