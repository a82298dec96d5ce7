// What one tenant does to the limits that all share keeps no other from its work.
#include <gtest/gtest.h>

#include "tests/unit/broker/tenants.hpp"

namespace millrace::broker::testing {
namespace {

const Peer push{Endpoint::push, {}};

// Jobs for any model.
std::vector<Body> jobs(int count, const std::string& prefix) {
  std::vector<Body> bodies;
  for (int i = 0; i < count; ++i) bodies.push_back(job_body(prefix + std::to_string(i), "*"));
  return bodies;
}

struct Neighbours : Tenants {
  using Tenants::Tenants;
  void push_as(const std::string& name, std::vector<Body> bodies) {
    keys[push] = "key of " + name;
    say(push, Submit{std::move(bodies)});
  }
  std::uint64_t queued(const std::string& name) {
    return ask_as<StatusAnswer>(name, StatusRequest{}).counts.queued;
  }
  std::size_t rejected(const std::string& name) {
    return ask_as<Data>(name, fetch_from("rejected")).entries.size();
  }
};

TEST(Neighbour, PushedJobsBeyondATenantsLimitAreRejectedAndHoldUpNobody) {
  CoreConfig config;
  config.tenants["A"].queued = 1;
  config.pending_jobs = 20;
  Neighbours world(config);
  for (int i = 0; i < 3; ++i) world.push_as("a", jobs(10, std::to_string(i) + "-"));
  EXPECT_EQ(world.queued("a"), 1u);
  EXPECT_EQ(world.rejected("a"), 29u);
  EXPECT_TRUE(world.broker().accepts_push());
  world.push_as("b", {job_body("pushed", "*")});
  world.submit_as("b", {job_body("sent", "*")});
  EXPECT_EQ(world.queued("b"), 2u);
}

TEST(Neighbour, ATenantHoldsHalfOfTheJobsThatMayWaitForTheirCommit) {
  CoreConfig config;
  config.pending_jobs = 8;
  Neighbours world(config);
  world.hold_commits = true;
  world.submit_as("a", jobs(4, "a"));
  world.submit_as("a", {job_body("more", "*")});
  const auto refused = world.take<Refused>(World::client("a"));
  ASSERT_EQ(refused.size(), 1u);
  EXPECT_EQ(refused[0].error.code, Code::overloaded);
  EXPECT_NE(refused[0].error.message.find("4 jobs already wait for their commit, 4 of them yours"),
            std::string::npos);
  world.submit_as("b", {job_body("b", "*")});
  EXPECT_FALSE(world.refusal(World::client("b")));
  world.commit();
  world.hold_commits = false;
  EXPECT_EQ(world.queued("b"), 1u);
}

TEST(Neighbour, SoDoPushedJobsOfAll) {
  CoreConfig config;
  config.pending_jobs = 8;
  Neighbours world(config);
  world.hold_commits = true;
  world.push_as("a", jobs(4, "a"));
  EXPECT_FALSE(world.broker().accepts_push());
  world.submit_as("a", {job_body("of a", "*")});
  world.submit_as("b", {job_body("of b", "*")});
  EXPECT_FALSE(world.refusal(World::client("a")));
  EXPECT_FALSE(world.refusal(World::client("b")));
  world.commit();
  EXPECT_TRUE(world.broker().accepts_push());
}

TEST(Neighbour, ATenantAtItsLimitIsNamedInTheLogOnceAnHour) {
  CoreConfig config;
  config.tenants["A"].queued = 1;
  Neighbours world(config);
  for (int i = 0; i < 5; ++i) {
    world.submit_as("a", jobs(2, std::to_string(i)));
    world.submit_as("b", {job_body(std::to_string(i), "*")});
    world.push_as("a", {job_body("pushed" + std::to_string(i), "*")});
    world.advance_ms(2'000);
  }
  EXPECT_EQ(world.notes_with("new jobs of tenant A are refused"), 1);
  EXPECT_EQ(world.notes_with("are taken again"), 0);
  world.advance_ms(3'600'000);
  world.join_client("a");  // its session ended meanwhile
  world.submit_as("a", {job_body("later", "*")});
  EXPECT_EQ(world.notes_with("new jobs of tenant A are refused"), 2);
}

}  // namespace
}  // namespace millrace::broker::testing
