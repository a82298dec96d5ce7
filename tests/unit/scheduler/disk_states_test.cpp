// States of recurrent layers that come from disk: with or without their pages, into a full pool,
// and from a folder that has lost some.
#include <gtest/gtest.h>

#include "tests/unit/scheduler/disk_engine.hpp"
#include "tests/unit/scheduler/random_families.hpp"

namespace millrace::engine {
namespace {

// Steps delivered late, and whether the model has keys and values.
class DiskStates : public testing::TestWithParam<DiskKind> {
 protected:
  DiskEngine engine(std::uint32_t states = 24) {
    const SchedulerOptions options{.max_batch = 8, .step_tokens = 64, .prefill_chunk = 64};
    return {env_, options, 512, GetParam(), 0, states};
  }
  static SequenceId add(DiskEngine& engine, const Tokens& prompt,
                        const std::vector<Checkpoint>& checkpoints) {
    const SequenceId id =
        engine.loop.scheduler.add({prompt, 3, false, limits::priority_default, checkpoints});
    engine.loop.wanted[id] = 3;
    return id;
  }
  // A chat: a system prompt of `system` tokens, then a question.
  static Tokens chat(std::uint32_t system, std::uint32_t question) {
    Tokens out = prompt_of(1, system);
    for (const TokenId token : prompt_of(question, 30)) out.push_back(token);
    return out;
  }
  // Saves the states after 40 and 80 tokens of a prompt.
  Tokens save_two_states() {
    const Tokens prompt = chat(80, 2);
    DiskEngine first = engine();
    add(first, prompt, {{40, Keep::system}});
    first.loop.run();
    add(first, prompt, {{80, Keep::system}});
    first.loop.run();
    return prompt;
  }
  // The files of the folder, oldest first: of 40 tokens the pages, if there are any, and the state,
  // then those of 80.
  std::vector<std::string> files() {
    std::vector<std::string> out = env_->list("/tier").value();
    std::erase(out, "lock");
    for (std::string& name : out) name = "/tier/" + name;
    return out;
  }
  void expect_idle(const DiskEngine& engine) {
    for (std::size_t pool = 0; pool < engine.loop.pools.pools(); ++pool) {
      EXPECT_EQ(engine.loop.pools[pool].used(), engine.loop.pools[pool].idle()) << "pool " << pool;
    }
  }
  // Runs the prompt alone and returns how many tokens were computed.
  std::uint64_t computed(DiskEngine& engine, const Tokens& prompt) {
    const std::uint64_t before = engine.loop.tokens;
    const SequenceId id = engine.loop.add(prompt, 3);
    engine.loop.run();
    EXPECT_EQ(engine.loop.drawn[id], expected(prompt, 3));
    expect_idle(engine);
    return engine.loop.tokens - before;
  }
  std::shared_ptr<FaultEnv> env_ = std::make_shared<FaultEnv>();
};
INSTANTIATE_TEST_SUITE_P(Kinds, DiskStates,
                         testing::Values(DiskKind{0, false, true}, DiskKind{1, false, true},
                                         DiskKind{0, false, true, false},
                                         DiskKind{1, false, true, false}),
                         [](const auto& of) {
                           return std::to_string(of.param.depth) + (of.param.keys ? "" : "_only");
                         });

// A hit ends at the last state on the path, which need not be the last page.
TEST_P(DiskStates, AHitEndsAtTheNearestState) {
  const Tokens prompt = save_two_states();
  EXPECT_EQ(files().size(), GetParam().keys ? 4u : 2u);
  {
    DiskEngine second = engine();
    EXPECT_EQ(computed(second, prompt), 110u - 80 + 2);
    EXPECT_EQ(second.transport.state_writes, 1u);
  }
  DiskEngine third = engine();
  EXPECT_EQ(computed(third, chat(41, 3)), 71u - 40 + 2);  // parts from the prompt after 41 tokens
  EXPECT_EQ(third.transport.state_writes, 1u);
}

// Without the state at its end a path is known up to the state before.
TEST_P(DiskStates, APathWithoutTheStateAtItsEndIsKnownUpToTheOneBefore) {
  const Tokens prompt = save_two_states();
  ASSERT_TRUE(env_->remove(files().back()));
  {
    DiskEngine second = engine();
    EXPECT_EQ(computed(second, prompt), 110u - 40 + 2);
  }
  ASSERT_TRUE(env_->remove(files().at(GetParam().keys ? 1 : 0)));
  DiskEngine third = engine();
  EXPECT_EQ(computed(third, prompt), 112u);
  EXPECT_EQ(third.transport.state_writes, 0u);
}

TEST_P(DiskStates, ADamagedStateIsComputedAgain) {
  const Tokens prompt = save_two_states();
  const std::string name = files().back();
  std::string bytes = read_file(*env_, name, 1u << 20).value();
  bytes.back() = static_cast<char>(~bytes.back());
  ASSERT_TRUE(write_file_atomically(*env_, name, bytes));
  {
    DiskEngine second = engine();
    EXPECT_EQ(computed(second, prompt), 112u) << "the fetch that failed was its only one";
  }
  const auto left = files();
  EXPECT_TRUE(std::ranges::find(left, name) == left.end());
}

// The states' pool is small, so the tree loses states whose pages it keeps. The disk gives them
// back without their pages.
TEST_P(DiskStates, AStateThatTheTreeHasLostComesBackWithoutItsPages) {
  DiskEngine one = engine(2);
  const Tokens prompt = chat(40, 2);
  add(one, prompt, {{40, Keep::system}});
  one.loop.run();
  one.save_all();
  for (std::uint32_t i = 3; i < 9; ++i) add(one, prompt_of(i, 50), {{20, Keep::system}});
  one.loop.run();
  const std::uint32_t pages = one.loop.scheduler.prefix_pages();
  EXPECT_EQ(computed(one, chat(40, 10)), 70u - 40 + 2);
  EXPECT_EQ(one.transport.state_writes, 1u);
  EXPECT_LE(one.loop.scheduler.prefix_pages(), pages + 8) << "no second copy of known pages";
}

// Sequences that begin alike wait for one fetch, also if it promises no pages.
TEST_P(DiskStates, ManyWaitForOneState) {
  DiskEngine one = engine(7);
  add(one, chat(40, 2), {{40, Keep::system}});
  one.loop.run();
  one.save_all();
  for (std::uint32_t i = 3; i < 12; ++i) add(one, prompt_of(i, 50), {{20, Keep::system}});
  one.loop.run();
  one.transport.state_writes = 0;
  std::map<SequenceId, Tokens> want;
  const std::uint64_t before = one.loop.tokens;
  for (std::uint32_t i = 20; i < 24; ++i) want[one.loop.add(chat(40, i), 3)] = {};
  one.loop.run();
  std::uint32_t i = 20;
  for (const auto& [id, none] : want) EXPECT_EQ(one.loop.drawn[id], expected(chat(40, i++), 3));
  EXPECT_EQ(one.loop.tokens - before, 4u * (70 - 40 + 2));
  EXPECT_EQ(one.transport.state_writes, 1u);
}

// Sequences that part within the pages of one fetch: the second one's state is fetched alone.
TEST_P(DiskStates, WhoPartsWithinAFetchGetsItsOwnState) {
  const Tokens prompt = save_two_states();
  DiskEngine second = engine();
  const SequenceId whole = second.loop.add(prompt, 3), parts = second.loop.add(chat(41, 3), 3);
  second.loop.run();
  EXPECT_EQ(second.loop.drawn[whole], expected(prompt, 3));
  EXPECT_EQ(second.loop.drawn[parts], expected(chat(41, 3), 3));
  EXPECT_EQ(second.loop.tokens, (110u - 80 + 2) + (71u - 40 + 2));
  EXPECT_EQ(second.transport.state_writes, 2u);
}

// Pages of a windowed group that the tree has lost come back, too, beside those of group 0 that it
// has.
TEST(DiskWindows, AWindowThatTheTreeHasLostComesBack) {
  const SchedulerOptions options{.max_batch = 2, .step_tokens = 16, .prefill_chunk = 16};
  const DiskKind kind{1, true};
  DiskEngine one(std::make_shared<FaultEnv>(), options, 512, kind, 13);
  const auto run = [&](const Tokens& prompt) {
    const std::uint64_t before = one.loop.tokens;
    const SequenceId id = one.loop.add(prompt, 3);
    one.loop.run();
    EXPECT_EQ(one.loop.drawn[id], expected(prompt, 3));
    return one.loop.tokens - before;
  };
  const Tokens prompt = prompt_of(1, 25);  // six pages, all of which a pool of 13 holds at once
  run(prompt);
  run(prompt);  // saves them
  one.save_all();
  for (std::uint32_t i = 3; i < 9; ++i) run(prompt_of(i, 50));
  const std::uint32_t pages = one.loop.scheduler.prefix_pages();
  EXPECT_EQ(one.transport.writes, 0u);
  EXPECT_EQ(run(prompt), 1u + 2);
  EXPECT_EQ(one.transport.writes, 1u);
  EXPECT_EQ(one.loop.scheduler.prefix_pages(), pages) << "no second copy of known pages";
}

// A pool of one state has none for the tree: nothing is fetched.
TEST_P(DiskStates, APoolOfOneStateComputes) {
  const Tokens prompt = save_two_states();
  DiskEngine second = engine(1);
  EXPECT_EQ(computed(second, prompt), 112u);
  EXPECT_EQ(second.transport.writes, 0u);
}

// Running sequences hold all states: one that finds its beginning on disk waits for a row as others
// do, and then gets it.
TEST_P(DiskStates, AFullPoolOfStatesHoldsUpNobody) {
  const Tokens prompt = save_two_states();
  DiskEngine second = engine(3);
  std::map<SequenceId, Tokens> want;
  for (std::uint32_t i = 0; i < 6; ++i) {
    want[second.loop.add(prompt_of(30 + i, 20), 40)] = expected(prompt_of(30 + i, 20), 40);
    want[second.loop.add(prompt, 3)] = expected(prompt, 3);
  }
  second.loop.run();
  EXPECT_EQ(second.loop.drawn, want);
  expect_idle(second);
}

TEST_P(DiskStates, ADeviceThatTakesNoStateComputes) {
  const Tokens prompt = save_two_states();
  DiskEngine second = engine();
  second.transport.fails_at = GetParam().keys ? 3 : 1;  // after two writes of pages
  EXPECT_EQ(computed(second, prompt), 112u);
}

}  // namespace
}  // namespace millrace::engine
