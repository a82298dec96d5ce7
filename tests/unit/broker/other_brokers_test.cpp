// Engines that come from another broker on the same ledger, with its leases.
#include <gtest/gtest.h>

#include "tests/unit/broker/world.hpp"

namespace millrace::broker::testing {
namespace {

CoreConfig shared() {
  CoreConfig config;
  config.shares_ledger = true;
  return config;
}

Claim claim_of(const std::string& engine, ClaimFrom from) {
  Claim claim;
  claim.tenant = default_tenant;
  claim.engine = engine;
  claim.model = "m";
  claim.until_us = INT64_MAX;
  claim.max_jobs = 1;
  claim.from = from;
  return claim;
}

// As another broker hands it out.
LeaseId leased_elsewhere(World& world, const std::string& engine, ClaimFrom from) {
  const auto reply = world.ask(claim_of(engine, from));
  return std::get<ClaimReply>(*reply).jobs.at(0).lease;
}

TEST(OtherBrokers, AnEngineGetsNothingBesideTheJobThatItRunsAloneAndBringsAlong) {
  World world(shared());
  world.join_engine("first", 0);  // so that the model is known
  world.submit({job_body("a")});
  const LeaseId before = leased_elsewhere(world, "dead", ClaimFrom::jobs);
  EXPECT_TRUE(world.ask(GiveBack{{before}, Blame::died, "dead"}));
  const LeaseId alone = leased_elsewhere(world, "e", ClaimFrom::suspects);
  world.submit({job_body("b")});
  world.join_engine("e");
  world.beat("e", {alone}, 1, 2);
  EXPECT_TRUE(world.leases("e").empty());
  world.beat("e", {alone}, 2, 2);
  EXPECT_TRUE(world.leases("e").empty());
  EXPECT_EQ(world.counts().queued, 1u);
}

TEST(OtherBrokers, AnEngineGetsMoreJobsOnceItsBrokerKnowsWhatItBrings) {
  World world(shared());
  world.join_engine("first", 0);
  world.submit({job_body("a"), job_body("b")});
  const LeaseId brought = leased_elsewhere(world, "e", ClaimFrom::jobs);
  world.join_engine("e");
  world.hold_commits = true;
  world.beat("e", {brought}, 1, 1);
  EXPECT_TRUE(world.commit_one());  // the renewal
  EXPECT_TRUE(world.leases("e").empty());
  world.commit();
  EXPECT_EQ(world.leases("e").size(), 1u);
}

// The ledger answers late, and then the broker asks once more.
TEST(OtherBrokers, WhatCouldNotBeReadIsReadAfterTheNextHeartbeat) {
  World world(shared());
  world.join_engine("first", 0);
  world.submit({job_body("a"), job_body("b")});
  const LeaseId brought = leased_elsewhere(world, "e", ClaimFrom::jobs);
  world.join_engine("e");
  world.instead = [](const Operation& operation) -> std::optional<Result<Reply>> {
    if (!std::holds_alternative<FindLapsed>(operation)) return std::nullopt;
    return fail(Code::overloaded, "not now");
  };
  world.beat("e", {brought}, 1, 1);
  EXPECT_TRUE(world.leases("e").empty());
  world.instead = {};
  world.beat("e", {brought}, 2, 1);
  EXPECT_EQ(world.leases("e").size(), 1u);
}

// No broker could renew a lease, nor say that it lives. The engines of the others live all the
// same.
TEST(OtherBrokers, AfterALedgerThatWasAwayTheirEnginesGetALeaseTime) {
  World world(shared());
  const std::int64_t lease_ms = CoreConfig().lease_ms;
  world.join_engine("first", 0);
  world.submit({job_body("a")});
  world.advance_ms(lease_ms + 1000);
  Claim claim = claim_of("far", ClaimFrom::jobs);
  claim.until_us = world.unix_us + 1'000'000;
  ASSERT_EQ(std::get<ClaimReply>(*world.ask(claim)).jobs.size(), 1u);
  world.hold_commits = true;
  world.advance_ms(3 * lease_ms);
  world.hold_commits = false;
  world.commit();
  world.advance_ms(lease_ms - 1000);
  EXPECT_EQ(world.counts().leased, 1u);
  world.advance_ms(2000);
  EXPECT_EQ(world.counts().queued, 1u);
}

void beat_for_s(World& world, const std::string& engine, std::uint64_t seconds) {
  static std::uint64_t steps = 0;  // grow as long as the engine lives
  for (std::uint64_t i = 0; i < seconds; ++i) {
    world.advance_ms(1000);
    world.beat(engine, {}, ++steps, 1);
  }
}

// The tenant may hold one lease. Its last one ends at another broker, and only a suspect waits.
TEST(OtherBrokers, ASuspectRunsOnceItsTenantHoldsFewerLeasesElsewhere) {
  CoreConfig config = shared();
  config.tenants[std::string(default_tenant)].leases = 1;
  World world(config);
  world.join_engine("first", 0);
  world.submit({job_body("a")});
  const LeaseId before = leased_elsewhere(world, "dead", ClaimFrom::jobs);
  EXPECT_TRUE(world.ask(GiveBack{{before}, Blame::died, "dead"}));
  world.submit({job_body("b")});
  const LeaseId held = leased_elsewhere(world, "far", ClaimFrom::jobs);
  world.join_engine("e");
  beat_for_s(world, "e", 2);
  EXPECT_TRUE(world.leases("e").empty());
  EXPECT_TRUE(world.ask(Finish{held, JobState::completed, encode_generation({}), "far"}));
  beat_for_s(world, "e", 5);
  EXPECT_FALSE(world.leases("e").empty());
}

TEST(OtherBrokers, TheLogCountsThem) {
  World world(shared());
  std::uint64_t others = 1;
  world.instead = [&](const Operation& operation) -> std::optional<Result<Reply>> {
    if (!std::holds_alternative<BeatBroker>(operation)) return std::nullopt;
    return Reply(BeatReply{others});
  };
  world.advance_ms(2000);
  EXPECT_EQ(world.notes_with("served by 1 other broker now"), 1);
  others = 2;
  world.advance_ms(2000);
  EXPECT_EQ(world.notes_with("served by 2 other brokers now"), 1);
}

}  // namespace
}  // namespace millrace::broker::testing
