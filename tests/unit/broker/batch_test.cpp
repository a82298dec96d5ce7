// Batches as clients see them: listing with rates, closing, the doorbell of their end.
#include <gtest/gtest.h>

#include "tests/unit/broker/world.hpp"

namespace millrace::broker::testing {
namespace {

const Peer owner = World::client("c");

BatchState show(World& world, const std::string& batch) {
  world.say(owner, BatchesRequest{batch, ""}, 11);
  auto answers = world.take<BatchesAnswer>(owner);
  return answers.empty() || answers.back().batches.empty() ? BatchState{}
                                                           : answers.back().batches.front();
}

std::uint64_t rung(const World& world, const std::string& stream) {
  std::uint64_t high = 0;
  for (const Ring& ring : world.rings) {
    if (ring.stream == stream) high = ring.high;
  }
  return high;
}

std::vector<Body> members(int count, const std::string& batch) {
  std::vector<Body> out;
  for (int i = 0; i < count; ++i) out.push_back(job_body("j" + std::to_string(i), "m", batch));
  return out;
}

TEST(Batches, TellTheirEndOnTheStreamAndRingItsDoorbell) {
  World world;
  world.join_engine("e", 5);
  world.submit(members(2, "b"));
  world.say(owner, ChangeBatch{"b", true, {{"owner", "me"}}}, 3);
  EXPECT_TRUE(world.take<BatchChanged>(owner).at(0).batch.closed);
  const auto answers = world.submit({job_body("late", "m", "b")});
  EXPECT_EQ(answers.at(0).error->code, Code::batch_closed);
  const auto leases = world.leases("e");
  world.say(World::engine("e"), Ends{{completed(leases[0].lease)}});
  EXPECT_EQ(rung(world, "batches"), 0u);
  world.say(World::engine("e"), Ends{{completed(leases[1].lease)}});
  EXPECT_EQ(rung(world, "batches"), 1u);
  const auto told = world.stream("batches");
  ASSERT_EQ(told.size(), 1u);
  EXPECT_EQ(decode_result(told[0].body)->counts->completed, 2u);
  EXPECT_EQ(show(world, "b").number, 1u);
}

TEST(Batches, ThatAreDoneRingWhenTheyAreClosed) {
  World world;
  world.join_engine("e", 5);
  world.submit(members(1, "b"));
  world.say(World::engine("e"), Ends{{completed(world.leases("e").at(0).lease)}});
  world.say(owner, ChangeBatch{"b", true, {}}, 3);
  EXPECT_TRUE(world.take<BatchChanged>(owner).at(0).batch.finished_us);
  EXPECT_EQ(rung(world, "batches"), 1u);
}

TEST(Batches, TheEndOnItsWayIsToldOnceOverARestart) {
  World world;
  world.join_engine("e", 5);
  world.submit(members(1, "b"));
  world.say(owner, ChangeBatch{"b", true, {}}, 3);
  const LeaseId lease = world.leases("e").at(0).lease;
  world.hold_commits = true;
  world.say(World::engine("e"), Ends{{completed(lease)}});
  world.hold_commits = false;
  world.restart();  // the end is lost with the broker; the engine sends it again
  world.join_engine("e", 5);
  EXPECT_TRUE(world.stream("batches").empty());
  for (int i = 0; i < 2; ++i) world.say(World::engine("e"), Ends{{completed(lease)}});
  EXPECT_EQ(world.stream("batches").size(), 1u);
}

TEST(Batches, UnknownOnesAreRefused) {
  World world;
  world.join_client("c");
  world.say(owner, BatchesRequest{"nobody", ""}, 3);
  EXPECT_EQ(world.refusal(owner), Code::not_found);
  world.say(owner, ChangeBatch{"nobody", true, {}}, 4);
  EXPECT_EQ(world.refusal(owner), Code::not_found);
}

TEST(Batches, ProgressGivesTheTimeThatIsLeft) {
  World world;
  world.join_engine("e");
  world.submit(members(100, "b"));
  EXPECT_EQ(show(world, "b").jobs_per_second, 0);
  EXPECT_FALSE(show(world, "b").eta_s) << "nothing has ended yet";
  for (int i = 0; i < 60; ++i) {  // one a second
    world.say(World::engine("e"), Ready{1});
    world.say(World::engine("e"), Ends{{completed(world.leases("e").at(0).lease)}});
    world.live_ms(1'000, {{"e", {}}});
  }
  const BatchState batch = show(world, "b");
  EXPECT_NEAR(batch.jobs_per_second, 1.0, 0.1);
  EXPECT_NEAR(static_cast<double>(batch.eta_s.value()), 40, 4);
  world.live_ms(600'000, {{"e", {}}});
  EXPECT_EQ(show(world, "b").jobs_per_second, 0) << "none ended in the last minutes";
  EXPECT_FALSE(show(world, "b").eta_s);
}

TEST(BatchRates, ABatchWithRareEndsIsNotTakenForOneAtAStandstill) {
  BatchRates rates;
  const std::int64_t second = 1'000'000;
  for (std::int64_t s = 0; s <= 100; s += 20) rates.ended("t", "rare", s * second);
  EXPECT_GT(rates.jobs_per_second("t", "rare", 290 * second), 0);
  EXPECT_EQ(rates.jobs_per_second("t", "rare", 310 * second), 0);
}

TEST(BatchRates, KeepTheWindowAndForgetTheQuietestBatch) {
  BatchRates rates;
  const std::int64_t second = 1'000'000;
  for (std::int64_t s = 0; s < 1'000; ++s) {
    for (int i = 0; i < 3; ++i) rates.ended("t", "steady", s * second);
  }
  EXPECT_NEAR(rates.jobs_per_second("t", "steady", 1'000 * second), 3.0, 0.1);
  EXPECT_NEAR(rates.jobs_per_second("t", "steady", 1'025 * second), 2.75, 0.1);
  EXPECT_EQ(rates.jobs_per_second("t", "steady", 1'035 * second), 0) << "perhaps no more will end";
  rates.ended("t", "steady", 9'000 * second);
  EXPECT_NEAR(rates.jobs_per_second("t", "steady", 9'001 * second), 1.0 / 300, 0.001)
      << "after a pause the ends of before do not count";
  for (std::size_t i = 0; i < BatchRates::batches_kept; ++i) {
    rates.ended("t", "b" + std::to_string(i), 9'010 * second);
  }
  EXPECT_EQ(rates.jobs_per_second("t", "steady", 9'011 * second), 0);
  EXPECT_GT(rates.jobs_per_second("t", "b0", 9'011 * second), 0);
}

}  // namespace
}  // namespace millrace::broker::testing
