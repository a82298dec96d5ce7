// Sequences of models with recurrent layers: which states stay, who goes on from them, and who
// waits. The fake device checks that each row reads the state of exactly the tokens before it.
#include <gtest/gtest.h>

#include <utility>

#include "tests/unit/scheduler/fake_device.hpp"
#include "tests/unit/scheduler/random_families.hpp"

namespace millrace::engine {
namespace {

constexpr std::uint32_t state_page_tokens = 4;

class States : public testing::TestWithParam<std::uint32_t> {  // steps delivered late
 protected:
  static SchedulerOptions options() {
    return {.max_batch = 8, .step_tokens = 32, .prefill_chunk = 16, .prefix_cache = true};
  }
  static Loop loop(std::uint32_t states, const SchedulerOptions& o = options()) {
    return {o, 1024, state_page_tokens, GetParam(), {{states, 0, true}}};
  }
  static SequenceId add(Loop& l, const Tokens& prompt, std::uint32_t max_tokens,
                        std::vector<Checkpoint> checkpoints) {
    const SequenceId id = l.scheduler.add(
        {prompt, max_tokens, false, limits::priority_default, std::move(checkpoints)});
    l.wanted[id] = max_tokens;
    return id;
  }
  static void expect_idle(const Loop& loop) {
    for (std::size_t pool = 0; pool < loop.pools.pools(); ++pool) {
      EXPECT_EQ(loop.pools[pool].used(), loop.pools[pool].idle()) << "pool " << pool;
    }
  }
  static Tokens with(Tokens tokens, TokenId last) {
    tokens.push_back(last);
    return tokens;
  }
};
INSTANTIATE_TEST_SUITE_P(Late, States, testing::Values(0u, 1u));

TEST_P(States, OneStateIsEnoughForALongText) {
  Loop l = loop(1);
  const Tokens prompt = prompt_of(1, 1000);
  const SequenceId id = l.add(prompt, 500);
  l.run();
  EXPECT_EQ(l.drawn[id], expected(prompt, 500));
  EXPECT_EQ(l.tokens, 1499u);
  expect_idle(l);
}

TEST_P(States, AsManySequencesRunAsThereAreStates) {
  Loop l = loop(3);
  std::map<SequenceId, Tokens> want;
  for (std::uint32_t i = 0; i < 8; ++i) {
    const Tokens prompt = prompt_of(i, 10);
    want[l.add(prompt, 12)] = expected(prompt, 12);
  }
  l.run();
  for (const auto& [id, tokens] : want) EXPECT_EQ(l.drawn[id], tokens);
  EXPECT_EQ(std::ranges::max(l.rows), 3u);
  expect_idle(l);
}

// The first sequence keeps the state where the others part from it, because they ask for it while
// they wait.
TEST_P(States, ACommonBeginningIsComputedOnce) {
  Loop l = loop(12);
  const Tokens common = prompt_of(1, 100);
  std::map<SequenceId, Tokens> want;
  for (TokenId i = 0; i < 6; ++i) {
    const Tokens prompt = with(common, i);
    want[l.add(prompt, 5)] = expected(prompt, 5);
  }
  l.run();
  for (const auto& [id, tokens] : want) EXPECT_EQ(l.drawn[id], tokens);
  EXPECT_EQ(l.tokens, 100u + 6 * (1 + 4));
  expect_idle(l);
}

// The second sequence finds pages but no state; it computes them again and keeps the state where it
// parts from the first, for the third.
TEST_P(States, ABeginningIsKeptWhenItIsSeenAgain) {
  Loop l = loop(4);
  const Tokens common = prompt_of(1, 100);
  std::vector<std::uint64_t> computed;
  for (TokenId i = 0; i < 3; ++i) {
    const std::uint64_t before = l.tokens;
    const Tokens prompt = with(common, i);
    const SequenceId id = l.add(prompt, 5);
    l.run();
    EXPECT_EQ(l.drawn[id], expected(prompt, 5));
    computed.push_back(l.tokens - before);
  }
  EXPECT_EQ(computed, (std::vector<std::uint64_t>{105, 105, 5}));
  expect_idle(l);
}

// Those behind the second sequence wait for it; they do not compute the beginning, too.
TEST_P(States, OthersWaitForTheOneThatComputesAKnownBeginningAgain) {
  Loop l = loop(12);
  const Tokens common = prompt_of(1, 100);
  l.add(with(common, 0), 5);
  l.run();
  const std::uint64_t before = l.tokens;
  std::map<SequenceId, Tokens> want;
  for (TokenId i = 1; i < 7; ++i) {
    const Tokens prompt = with(common, i);
    want[l.add(prompt, 5)] = expected(prompt, 5);
  }
  l.run();
  for (const auto& [id, tokens] : want) EXPECT_EQ(l.drawn[id], tokens);
  EXPECT_EQ(l.tokens - before, 100u + 6 * 5);
  expect_idle(l);
}

TEST_P(States, SamplesOfOnePromptShareIt) {
  for (const bool cache : {false, true}) {
    SchedulerOptions o = options();
    o.prefix_cache = cache;
    Loop l = loop(12, o);
    const Tokens prompt = prompt_of(3, 150);
    const SequenceId id = l.add(prompt, 40, false, 3);
    l.run();
    for (SequenceId i = id; i <= id + 3; ++i) EXPECT_EQ(l.drawn[i], expected(prompt, 40));
    EXPECT_EQ(l.tokens, 150u + 4 * 39 + 3 * (150 - 148));
    expect_idle(l);
  }
}

TEST_P(States, CheckpointsOfAChatAreKept) {
  Loop l = loop(4);
  const Tokens first = prompt_of(1, 90);
  add(l, first, 5, {{42, Keep::system}, {90, Keep::user}});
  l.run();
  std::uint64_t before = l.tokens;
  Tokens turn = first;  // the next turn of the chat
  for (const TokenId token : prompt_of(2, 30)) turn.push_back(token);
  const SequenceId next = l.add(turn, 5);
  l.run();
  EXPECT_EQ(l.drawn[next], expected(turn, 5));
  EXPECT_EQ(l.tokens - before, 120u - 88 + 4);
  before = l.tokens;
  Tokens other(first.begin(), first.begin() + 42);  // another chat with the same system prompt
  for (const TokenId token : prompt_of(3, 30)) other.push_back(token);
  const SequenceId fresh = l.add(other, 5);
  l.run();
  EXPECT_EQ(l.drawn[fresh], expected(other, 5));
  EXPECT_EQ(l.tokens - before, 72u - 40 + 4);
  expect_idle(l);
}

// Kept states give way to sequences that run, and to newer ones of their kind.
TEST_P(States, KeptStatesTakeOnlyFreePages) {
  Loop l = loop(3);
  for (std::uint32_t i = 0; i < 10; ++i) add(l, prompt_of(i, 30), 4, {{20, Keep::user}});
  l.run();
  EXPECT_EQ(l.scheduler.pauses(), 0u);
  expect_idle(l);
  const std::uint64_t before = l.tokens;
  l.add(prompt_of(9, 30), 4);
  l.run();
  EXPECT_EQ(l.tokens - before, 10u + 3);  // the last one's state was not the first to go
}

// The tree has the states already: the sequence that computes them again gives its own back.
TEST_P(States, KeptStatesOfAKnownPromptAreGivenBackWithThePrompt) {
  Loop l = loop(8);
  const Tokens prompt = prompt_of(1, 60);
  const std::vector<Checkpoint> turns{{20, Keep::user}, {40, Keep::user}};
  add(l, prompt, 4, turns);
  l.run();
  const SequenceId id =
      l.scheduler.add({prompt, 30, true, limits::priority_default, turns});  // scores its prompt
  l.wanted[id] = 30;
  while (l.drawn[id].size() < 5) ASSERT_TRUE(l.step());
  const PagePool& states = l.pools[1];
  EXPECT_EQ(states.used() - states.idle(), 1u);
  l.run();
  expect_idle(l);
}

TEST_P(States, AnUrgentSequenceTakesTheOnlyState) {
  Loop l = loop(1);
  const Tokens slow = prompt_of(1, 100), fast = prompt_of(2, 30);
  const SequenceId patient = l.add(slow, 50, false, 0, 9);
  for (int i = 0; i < 12; ++i) l.step();
  const SequenceId urgent = l.add(fast, 5, false, 0, 0);
  while (l.wanted.contains(urgent)) ASSERT_TRUE(l.step());
  EXPECT_TRUE(l.wanted.contains(patient));
  l.run();
  EXPECT_EQ(l.drawn[patient], expected(slow, 50));
  EXPECT_EQ(l.drawn[urgent], expected(fast, 5));
  EXPECT_EQ(l.scheduler.pauses(), 1u);
  expect_idle(l);
}

TEST_P(States, RandomFamiliesAlwaysEndRight) {
  run_random_families(120, GetParam(), false, true);
  run_random_families(60, GetParam(), true, true);
}

}  // namespace
}  // namespace millrace::engine
