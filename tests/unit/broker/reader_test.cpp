// Fetches are served in turns, and a reader that does not read its answers waits alone.
#include <gtest/gtest.h>

#include "tests/unit/broker/world.hpp"

namespace millrace::broker::testing {
namespace {

void fetch(World& world, const Peer& peer, std::uint64_t times) {
  for (std::uint64_t i = 0; i < times; ++i) world.say(peer, Fetch{}, 10 + i);
}

TEST(Readers, GetOneAnswerEachBeforeAnyGetsItsNext) {
  World world;
  const Peer greedy = World::client("greedy"), modest = World::client("modest");
  world.join_client("greedy");
  world.join_client("modest");
  world.hold_commits = true;
  fetch(world, greedy, 30);
  fetch(world, modest, 1);
  int before = 0;  // answers to the greedy one before the modest one's
  while (world.take<Data>(modest).empty()) {
    ASSERT_TRUE(world.commit_one());
    before += static_cast<int>(world.take<Data>(greedy).size());
  }
  EXPECT_LE(before, 1);
  world.commit();
  EXPECT_EQ(before + world.take<Data>(greedy).size(), 30u);
}

TEST(Readers, WhoDoesNotReadGetsNoMoreUntilItReads) {
  World world;
  const Peer deaf = World::client("deaf"), other = World::client("other");
  world.join_client("deaf");
  world.join_client("other");
  world.feed(Stalled{deaf});  // it has no fetch that waits: this says nothing about later ones
  fetch(world, deaf, 1);
  EXPECT_EQ(world.take<Data>(deaf).size(), 1u);
  world.feed(Stalled{deaf});
  fetch(world, deaf, 5);
  fetch(world, other, 5);
  EXPECT_TRUE(world.take<Data>(deaf).empty());
  EXPECT_EQ(world.take<Data>(other).size(), 5u);
  world.feed(Stalled{deaf, false});
  EXPECT_EQ(world.take<Data>(deaf).size(), 5u);
}

TEST(Readers, ShareTheMemoryOfUnreadAnswers) {
  World world;
  world.join_client("a");
  world.join_engine("e");
  std::vector<Body> jobs;
  for (int i = 0; i < 8; ++i) jobs.push_back(job_body("j" + std::to_string(i)));
  world.submit(std::move(jobs));
  world.say(World::engine("e"), Ready{8});
  Ends ends;
  for (const Lease& lease : world.leases("e")) {
    GenerationResult result;
    result.choices.emplace_back().text = std::string(limits::fetch_bytes / 5, 'y');
    ends.ends.push_back({lease.lease, JobState::completed, encode_generation(result), {}});
  }
  world.say(World::engine("e"), ends, 5);
  fetch(world, World::client("a"), 1);
  EXPECT_EQ(world.take<Data>(World::client("a")).at(0).entries.size(), 4u);
  for (int i = 0; i < 1000; ++i) {
    const std::string name = "r" + std::to_string(i);
    world.join_client(name);
    fetch(world, World::client(name), 1);
  }
  fetch(world, World::client("a"), 1);
  EXPECT_EQ(world.take<Data>(World::client("a")).at(0).entries.size(), 1u);
}

TEST(Readers, SessionsHaveABoundedNumberOfFetchesThatWait) {
  World world;
  world.join_client("a");
  world.hold_commits = true;
  fetch(world, World::client("a"), CoreConfig{}.requests_per_session);
  EXPECT_FALSE(world.refusal(World::client("a")));
  fetch(world, World::client("a"), 1);
  EXPECT_EQ(world.refusal(World::client("a")), Code::overloaded);
}

}  // namespace
}  // namespace millrace::broker::testing
