// Sequences whose beginnings come from disk, over the fake device: a page that is read before it is
// written, or from another path, shows as a wrong token.
#include <gtest/gtest.h>

#include "tests/unit/scheduler/disk_engine.hpp"
#include "tests/unit/scheduler/random_families.hpp"

namespace millrace::engine {
namespace {

using Kind = DiskKind;
using Engine = DiskEngine;

class Disk : public testing::TestWithParam<Kind> {
 protected:
  Engine engine(std::uint32_t pool_pages = 128) {
    const SchedulerOptions options{.max_batch = 8, .step_tokens = 64, .prefill_chunk = 64};
    return {env_, options, pool_pages, GetParam(), pool_pages};
  }
  // Pages that a second sequence of one engine reads are saved. With states that is the third: the
  // second one leaves the state from which it goes on.
  void use_twice(const Tokens& prompt) {
    Engine first = engine(256);
    for (int use = 0; use < (GetParam().states ? 3 : 2); ++use) {
      first.loop.add(prompt, 1);
      first.loop.run();
    }
  }
  std::shared_ptr<FaultEnv> env_ = std::make_shared<FaultEnv>();
};
const auto name_of = [](const auto& of) {
  return std::to_string(of.param.depth) + (of.param.windowed ? "_windowed" : "") +
         (of.param.states ? "_states" : "") + (of.param.keys ? "" : "_only");
};
INSTANTIATE_TEST_SUITE_P(Depth, Disk,
                         testing::Values(Kind{0, false}, Kind{1, false}, Kind{0, true},
                                         Kind{1, true}, Kind{0, false, true}, Kind{1, false, true},
                                         Kind{1, true, true}, Kind{0, false, true, false},
                                         Kind{1, false, true, false}),
                         name_of);

TEST_P(Disk, ASystemPromptIsReadAfterARestart) {
  const Tokens prompt = prompt_of(1, 100);
  {
    Engine first = engine();
    SequenceSpec spec{prompt, 3};
    spec.checkpoints = {{42, Keep::system}, {100, Keep::user}};
    const SequenceId id = first.loop.scheduler.add(spec);
    first.loop.wanted[id] = 3;
    first.loop.run();
    EXPECT_EQ(first.loop.drawn[id], expected(prompt, 3));
  }
  Engine second = engine();
  const SequenceId id = second.loop.add(prompt, 3);
  second.loop.run();
  EXPECT_EQ(second.loop.drawn[id], expected(prompt, 3));
  EXPECT_EQ(second.loop.tokens, 100u - 40 + 2);  // ten whole pages lie in the system prompt
}

TEST_P(Disk, WhatWasUsedTwiceIsReadAfterARestartByAllWhoNeedIt) {
  const Tokens prompt = prompt_of(1, 200);
  use_twice(prompt);
  Engine second = engine();
  std::map<SequenceId, Tokens> want;
  for (int i = 0; i < 5; ++i) want[second.loop.add(prompt, 3)] = expected(prompt, 3);
  const Tokens apart = prompt_of(2, 30);
  want[second.loop.add(apart, 3)] = expected(apart, 3);
  second.loop.run();
  EXPECT_EQ(second.loop.drawn, want);
  // The leader has one whole page more to compute; others take it from the tree.
  EXPECT_EQ(second.loop.tokens, 5u * (4 + 2) + 30 + 2);
  EXPECT_EQ(second.loop.pool.used(), second.loop.pool.idle());
}

TEST_P(Disk, WhoeverIsCancelledWhileItsPagesComeHarmsNobody) {
  const Tokens prompt = prompt_of(1, 100);
  use_twice(prompt);
  Engine second = engine();
  const SequenceId gone = second.loop.add(prompt, 3), kept = second.loop.add(prompt, 3);
  second.loop.step();
  second.loop.finish(gone);
  second.loop.run();
  EXPECT_EQ(second.loop.drawn[kept], expected(prompt, 3));
  EXPECT_LT(second.loop.tokens, 20u);
}

// Of a windowed group only what the next token sees is fetched: the rest of the path would not fit.
TEST_P(Disk, ALongPathIsReadIntoASmallWindowedGroup) {
  const Tokens prompt = prompt_of(1, 400);
  use_twice(prompt);
  Engine second{
      env_, {.max_batch = 8, .step_tokens = 64, .prefill_chunk = 16}, 128, GetParam(), 13};
  const SequenceId id = second.loop.add(prompt, 3);
  second.loop.run();
  EXPECT_EQ(second.loop.drawn[id], expected(prompt, 3));
  EXPECT_EQ(second.loop.tokens, 4u + 2);
}

// At the end not all pages are in the host's memory at once.
TEST_P(Disk, WhatIsLeftAtTheEndIsSavedOneAfterTheOther) {
  Engine first = engine();
  for (std::uint32_t i = 0; i < 8; ++i) {
    SequenceSpec spec{prompt_of(i, 7), 1};
    spec.checkpoints = {{7, Keep::system}};
    first.loop.wanted[first.loop.scheduler.add(spec)] = 1;
  }
  first.loop.run();
  first.transport.reads = first.transport.most_under_way = 0;
  first.pages.flush(first.held());
  EXPECT_GE(first.transport.reads, 4u);
  EXPECT_LE(first.transport.most_under_way, 2u) << "one, and one that the last step began";
  EXPECT_EQ(first.transport.under_way, 0u);
}

TEST_P(Disk, DamageIsComputedAgain) {
  const Tokens prompt = prompt_of(1, 100);
  use_twice(prompt);
  const auto names = env_->list("/tier").value();
  const std::string name = "/tier/" + (names.at(0) == "lock" ? names.at(1) : names.at(0));
  std::string bytes = read_file(*env_, name, 1u << 20).value();
  bytes.back() = static_cast<char>(~bytes.back());
  ASSERT_TRUE(write_file_atomically(*env_, name, bytes));
  Engine second = engine();
  const SequenceId a = second.loop.add(prompt, 3), b = second.loop.add(prompt, 3);
  second.loop.run();
  EXPECT_EQ(second.loop.drawn[a], expected(prompt, 3));
  EXPECT_EQ(second.loop.drawn[b], expected(prompt, 3));
  // With states the second one is looked at when the first has planned the place to part.
  EXPECT_EQ(second.loop.tokens, 100u + 2 + (GetParam().states ? 100 : 4) + 2);
}

TEST_P(Disk, ADeviceThatTakesNoPagesComputes) {
  const Tokens prompt = prompt_of(1, 100);
  use_twice(prompt);
  Engine second = engine();
  second.transport.fails_at = 1;
  const SequenceId id = second.loop.add(prompt, 3);
  second.loop.run();
  EXPECT_EQ(second.loop.drawn[id], expected(prompt, 3));
  EXPECT_EQ(second.loop.tokens, 102u);
}

// Restarts among random families: small pools, pauses, cancels, and a disk that fails now and then.
TEST_P(Disk, RandomFamiliesAlwaysEndRightOverRestarts) {
  std::uint64_t fetched = 0, pauses = 0;
  for (std::uint32_t seed = 0; seed < 24; ++seed) {
    Random random(seed);
    env_ = std::make_shared<FaultEnv>();
    env_->set_hook([&](std::string_view, const std::string& path) -> Status {
      if (path.find(".kv") == std::string::npos || std::hash<std::string>()(path) % 7 > 0)
        return {};
      return fail(Code::io_error, "a bad sector", "");
    });
    for (int life = 0; life < 4; ++life) {
      SchedulerOptions o{.max_batch = 4, .step_tokens = 4 + random() % 30, .prefill_chunk = 16};
      o.forecast_tokens = random() % 8;
      const std::uint32_t pool_pages = 20 + random() % 30;
      // A window of 10 positions, rows of at most 16 and ends: 13 pages.
      const std::uint32_t more = GetParam().windowed ? random() % 10 : 0;
      const std::uint32_t states = GetParam().states ? 1 + random() % 8 : 0;
      Engine engine(env_, o, pool_pages, GetParam(), 13 + more, states);
      run_random_jobs(engine.loop, random, seed, {.siblings = false});
      ASSERT_FALSE(HasFailure()) << "seed " << seed << ", life " << life;
      fetched += engine.transport.writes;
      pauses += engine.loop.scheduler.pauses();
    }
  }
  EXPECT_GT(fetched, 20u);
  EXPECT_GT(pauses, 20u);
}

}  // namespace
}  // namespace millrace::engine
