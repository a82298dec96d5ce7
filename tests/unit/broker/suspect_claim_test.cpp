// When suspects are handed out and when not: paused ones, those that start later, failed claims.
#include <gtest/gtest.h>

#include "tests/unit/broker/world.hpp"

namespace millrace::broker::testing {
namespace {

// Nobody can hand it out, so no engine drains for it.
TEST(Suspects, OfAPausedBatchKeepNoEngineFromItsWork) {
  World world;
  world.join_engine("dies", 1);
  world.submit({job_body("a", "m", "batch")});
  (void)world.leases("dies");
  world.join_engine("busy", 2);
  world.submit(job_bodies(4));
  const auto held = world.leases("busy");
  ASSERT_EQ(held.size(), 2u);
  world.feed(EngineDied{"dies"});
  world.say(World::client("c"), ChangePause{"batch", "", false, true}, 5);
  world.live_ms(40'000, {{"busy", {held[0].lease, held[1].lease}}});
  world.say(World::engine("busy"), Ready{1});
  EXPECT_EQ(world.leases("busy").size(), 1u);
}

TEST(Suspects, ThatStartLaterAreHandedOutAtOnceThen) {
  World world;
  world.join_engine("dies", 2);
  world.submit(job_bodies(2));
  ASSERT_EQ(world.leases("dies").size(), 2u);
  world.feed(EngineDied{"dies"});
  world.join_engine("e", 1);
  const auto first = world.leases("e");
  ASSERT_EQ(first.size(), 1u);
  JobEnd no_memory = failed_end(first[0].lease);
  no_memory.error->code = Code::out_of_memory;
  world.say(World::engine("e"), Ends{{no_memory}});
  world.say(World::engine("e"), Ready{1});
  const auto second = world.leases("e");
  ASSERT_EQ(second.size(), 1u);
  world.say(World::engine("e"), Ends{{completed(second[0].lease)}});
  world.say(World::engine("e"), Ready{1});
  EXPECT_TRUE(world.leases("e").empty());
  ASSERT_TRUE(world.job(first[0].job).start_us);
  for (int i = 0; i < 40 && world.job(first[0].job).start_us; ++i) world.advance_ms(250);
  EXPECT_TRUE(world.job(first[0].job).suspect);
  EXPECT_EQ(world.leases("e").size(), 1u) << "with the sweep that starts it";
}

TEST(Suspects, AClaimOfThemThatFailsKeepsNoOtherJobBack) {
  World world;
  world.join_engine("dies", 1);
  world.submit({job_body("suspect")});
  (void)world.leases("dies");
  world.feed(EngineDied{"dies"});
  world.submit({job_body("other")});
  world.instead = [](const Operation& op) -> std::optional<Result<Reply>> {
    const auto* claim = std::get_if<Claim>(&op);
    if (claim == nullptr || claim->from != ClaimFrom::suspects) return std::nullopt;
    return fail(Code::disk_full, "no room");
  };
  world.join_engine("e", 1);
  EXPECT_TRUE(world.leases("e").empty());
  world.say(World::engine("e"), Ready{1});
  const auto other = world.leases("e");
  ASSERT_EQ(other.size(), 1u);
  EXPECT_EQ(other[0].job, "other");
  world.say(World::engine("e"), Ends{{completed(other[0].lease)}});
  world.say(World::engine("e"), Ready{1});
  EXPECT_TRUE(world.leases("e").empty());
  world.instead = nullptr;
  world.advance_ms(1'250);
  const auto suspect = world.leases("e");
  ASSERT_EQ(suspect.size(), 1u) << "the next sweep claims again";
  EXPECT_EQ(suspect[0].job, "suspect");
}

}  // namespace
}  // namespace millrace::broker::testing
