// Partials: who gets them, and that they leave no trace.
#include <gtest/gtest.h>

#include "tests/unit/broker/world.hpp"

namespace millrace::broker::testing {
namespace {

const Peer c = World::client("c"), reader = World::client("reader"), e = World::engine("e");

Partials partial_of(LeaseId lease, const std::string& text) {
  Partials out;
  PartialEntry& entry = out.entries.emplace_back();
  entry.lease = lease;
  entry.partial.text = text;
  entry.partial.tokens = {7};
  return out;
}

class PartialTest : public ::testing::Test {
 protected:
  PartialTest() {
    world.join_client("reader");
    world.join_engine("e", 4);
    world.submit({job_body("a"), job_body("b")});
    for (const auto& lease : world.leases("e")) leases.push_back(lease.lease);
  }
  void watch(const std::string& stream = "results", bool on = true) {
    world.say(reader, Watch{stream, on}, 5);
  }
  World world;
  std::vector<LeaseId> leases;
};

TEST_F(PartialTest, GoToTheSessionsThatWatchTheStream) {
  watch();
  const auto watching = world.take<Watching>(reader);
  ASSERT_EQ(watching.size(), 1u);
  EXPECT_EQ(watching[0], (Watching{"results", true}));
  world.say(e, partial_of(leases[1], "so far"));
  const auto got = world.take<Partials>(reader);
  ASSERT_EQ(got.size(), 1u);
  EXPECT_EQ(got[0].stream, "results");
  ASSERT_EQ(got[0].entries.size(), 1u);
  const PartialEntry& entry = got[0].entries[0];
  EXPECT_EQ(entry.lease, 0u);  // clients do not get lease ids
  EXPECT_EQ(entry.job, "b");
  EXPECT_EQ(entry.attempt, 1u);
  EXPECT_EQ(entry.partial.text, "so far");
  EXPECT_TRUE(world.take<Partials>(c).empty());  // this client does not watch
}

TEST_F(PartialTest, OnlyWhileTheyAreWantedAndOfThatStream) {
  watch("elsewhere");
  world.say(e, partial_of(leases[0], "x"));
  EXPECT_TRUE(world.take<Partials>(reader).empty());
  watch();
  watch("results", false);
  world.say(e, partial_of(leases[0], "x"));
  EXPECT_TRUE(world.take<Partials>(reader).empty());
  watch();
  world.join_client("reader");  // a new session
  world.say(e, partial_of(leases[0], "x"));
  EXPECT_TRUE(world.take<Partials>(reader).empty());
}

TEST_F(PartialTest, OnlyOfALeaseThatTheEngineHolds) {
  watch();
  world.join_engine("other", 4);
  world.say(World::engine("other"), partial_of(leases[0], "not mine"));
  world.say(e, partial_of(424242, "no such lease"));
  Ends ends;
  ends.ends.push_back(completed(leases[0]));
  world.say(e, std::move(ends));
  world.say(e, partial_of(leases[0], "too late"));
  EXPECT_TRUE(world.take<Partials>(reader).empty());
  EXPECT_FALSE(world.refusal(e));
}

TEST_F(PartialTest, TheyAreNeitherCountedNorKept) {
  watch();
  const JobCounts before = world.counts();
  const auto finished = world.broker().counters().finished;
  for (int i = 0; i < 5; ++i) world.say(e, partial_of(leases[0], "x"));
  EXPECT_EQ(world.take<Partials>(reader).size(), 5u);
  EXPECT_EQ(world.counts(), before);
  EXPECT_EQ(world.broker().counters().finished, finished);
  EXPECT_TRUE(world.stream().empty());
  EXPECT_TRUE(world.rings.empty());
}

TEST_F(PartialTest, BadWatchesAreRefusedByName) {
  for (std::uint32_t i = 0; i < limits::watched_streams; ++i) watch("s" + std::to_string(i));
  EXPECT_FALSE(world.refusal(reader));
  watch("one more");
  EXPECT_EQ(world.refusal(reader), Code::limit_exceeded);
  watch("s0");  // is watched already
  EXPECT_FALSE(world.refusal(reader));
  world.say(e, Watch{}, 3);
  EXPECT_EQ(world.refusal(e), Code::unexpected_message);
  world.say(reader, Partials{}, 3);
  EXPECT_EQ(world.refusal(reader), Code::unexpected_message);
}

}  // namespace
}  // namespace millrace::broker::testing
