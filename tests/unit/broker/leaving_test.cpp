// Engines that leave, and those that come back while a claim for them is on its way.
#include <gtest/gtest.h>

#include "tests/unit/broker/world.hpp"

namespace millrace::broker::testing {
namespace {

// What was claimed for it before belongs to nobody: with a credit of one it gets one job.
TEST(Leaving, AnEngineThatComesBackDuringItsClaimGetsOnlyTheJobsOfItsNewCredit) {
  World world;
  world.join_engine("e");
  world.submit(job_bodies(3));
  world.hold_commits = true;
  world.say(World::engine("e"), Ready{1});
  world.say(World::engine("e"), Goodbye{});
  world.join_engine("e", 1);
  world.commit();
  EXPECT_EQ(world.leases("e").size(), 1u);
  EXPECT_EQ(world.counts().leased, 1u);
  EXPECT_EQ(world.counts().queued, 2u);
}

// The same if it was silent for so long that it counted as gone.
TEST(Leaving, AnEngineThatWasSilentDuringItsClaimKeepsIt) {
  World world;
  world.join_engine("e");
  world.submit(job_bodies(3));
  world.hold_commits = true;
  world.say(World::engine("e"), Ready{1});
  world.advance_ms(60'000);
  world.join_engine("e", 1);
  world.commit();
  EXPECT_EQ(world.leases("e").size(), 1u);
  EXPECT_EQ(world.counts().leased, 1u);
}

TEST(Leaving, GoodbyeGivesLeasesBackWithoutBlame) {
  World world;
  world.join_engine("e", 2);
  world.submit({job_body("a"), job_body("b")});
  (void)world.leases("e");
  world.say(World::engine("e"), Goodbye{});
  EXPECT_EQ(world.counts().queued, 2u);
  EXPECT_FALSE(world.job("a").suspect);
  world.join_engine("e2", 4);
  EXPECT_EQ(world.leases("e2").size(), 2u);
}

TEST(Leaving, ReleaseGivesBackWhatItNames) {
  World world;
  world.join_engine("e", 2);
  world.submit({job_body("a"), job_body("b")});
  const auto leases = world.leases("e");
  world.join_engine("e2");
  world.say(World::engine("e2"), Release{{leases[0].lease}});  // not its own
  EXPECT_EQ(world.counts().leased, 2u);
  world.say(World::engine("e"), Release{{leases[0].lease}});
  EXPECT_EQ(world.counts().queued, 1u);
  EXPECT_FALSE(world.job(leases[0].job).suspect);
}

TEST(Leaving, AClaimForAnEngineThatHasGoneIsUndone) {
  World world;
  world.join_engine("e");
  world.submit({job_body("a")});
  world.hold_commits = true;
  world.say(World::engine("e"), Ready{1});
  world.say(World::engine("e"), Goodbye{});
  world.commit();
  EXPECT_EQ(world.counts().queued, 1u);
  EXPECT_FALSE(world.job("a").suspect);
}

}  // namespace
}  // namespace millrace::broker::testing
