// What a status tells of the load: how full engines are and how fast, and the queues of tenants.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "broker/core/job_cost.hpp"
#include "broker/core/tally.hpp"
#include "tests/unit/broker/tenants.hpp"

namespace millrace::broker::testing {
namespace {

StatusRequest with_queues() {
  StatusRequest request;
  request.queues = true;
  return request;
}

TEST(Load, OfTheLastHeartbeatIsTold) {
  World world;
  world.join_client("c");
  world.join_engine("e");
  Heartbeat beat;
  beat.steps = beat.tokens = 1'000;
  beat.rows = 48;
  beat.load = {.max_rows = 64,
               .waiting_jobs = 5,
               .kv_used_tokens = 4'096,
               .kv_pool_tokens = 65'536,
               .kv_used_bytes = 1'000,
               .kv_pool_bytes = 16'000,
               .prefix_tokens = 512,
               .prompt_tokens = 900,
               .cached_tokens = 300,
               .completion_tokens = 400};
  world.say(World::engine("e"), beat, 1);
  world.advance_ms(2'000);
  beat.tokens += 1'000;
  beat.load.prompt_tokens += 600;
  beat.load.completion_tokens += 400;
  world.say(World::engine("e"), beat, 2);
  world.say(World::client("c"), StatusRequest{}, 3);
  const auto answer = world.take<StatusAnswer>(World::client("c")).at(0);
  ASSERT_EQ(answer.engines.size(), 1u);
  const EngineInfo& engine = answer.engines[0];
  EXPECT_EQ(engine.load, beat.load);
  EXPECT_EQ(engine.rows, 48u);
  EXPECT_EQ(engine.tokens_per_second, 500);
  EXPECT_EQ(engine.prompt_tokens_per_second, 300);
  EXPECT_EQ(engine.completion_tokens_per_second, 200);
  EXPECT_TRUE(answer.queues.empty()) << "only where they are asked for";
}

TEST(Load, TheQueueOfTheTenantIsToldWhereItIsAskedFor) {
  Tenants world;
  const Body job = job_body("1", "*");
  const std::uint64_t cost = job_cost_tokens(decode_job(job)->job);
  world.submit_as("a", {job, job_body("2", "*"), job_body("3", "*")});
  world.join_engine("engine-a", 1);
  (void)world.leases("engine-a");
  world.advance_ms(3'000);
  const auto queues = world.ask_as<StatusAnswer>("a", with_queues()).queues;
  ASSERT_EQ(queues.size(), 1u);
  EXPECT_EQ(queues[0], (TenantQueue{"A", 2, 2 * cost, 1, cost, 3'000, false}));
  const auto other = world.ask_as<StatusAnswer>("b", with_queues()).queues;
  ASSERT_EQ(other.size(), 1u) << "of its own tenant alone";
  EXPECT_EQ(other[0], (TenantQueue{"B", 0, 0, 0, 0, {}, false}));
  ChangePause pause;
  pause.all = true;
  world.ask_as<PauseChanged>("a", pause);
  const auto paused = world.ask_as<StatusAnswer>("a", with_queues()).queues;
  EXPECT_TRUE(paused.at(0).paused);
  EXPECT_FALSE(paused.at(0).oldest_ms) << "no engine could take any";
}

TEST(Load, AnOperatorSeesTheQueuesOfAllTenants) {
  auto grants = Tenants::grants();
  grants.push_back(grant_to("operator", "A", {KeyRole::operate}));
  Tenants world;
  world.reconfigure(Tenants::config(grants));
  world.keys[World::client("operator")] = "key of operator";
  world.restart();
  for (const char* name : {"a", "b", "operator"}) world.join_client(name);
  EXPECT_TRUE(world.ask_as<StatusAnswer>("operator", with_queues()).queues.empty());
  world.submit_as("a", {job_body("1", "*")});
  world.submit_as("b", {job_body("1", "*"), job_body("2", "*")});
  const auto queues = world.ask_as<StatusAnswer>("operator", with_queues()).queues;
  ASSERT_EQ(queues.size(), 2u);
  EXPECT_EQ(queues[0].tenant + queues[1].tenant, "AB");
  EXPECT_EQ(queues[0].queued, 1u);
  EXPECT_EQ(queues[1].queued, 2u);
}

TEST(Load, ThatThereAreMoreQueuesIsTold) {
  std::vector<Grant> grants = {grant_to("operator", "A", {KeyRole::operate})};
  const auto name_of = [](std::size_t i) { return "t" + std::to_string(1'000 + i); };
  for (std::size_t i = 0; i <= Tally::tenants_named; ++i) {
    grants.push_back(grant_to(name_of(i), name_of(i), {KeyRole::submit}));
  }
  World world(Tenants::config(grants));
  for (const Grant& grant : grants) {
    world.keys[World::client(grant.name)] = "key of " + grant.name;
  }
  world.join_client("operator");
  for (std::size_t i = 0; i <= Tally::tenants_named; ++i) {
    const auto client = World::client(name_of(i));
    world.join_client(name_of(i));
    world.say(client, Submit{{job_body("1", "*")}}, 7);
    EXPECT_EQ(world.take<Submitted>(client).size(), 1u);
    world.say(World::client("operator"), with_queues(), 8);
    const auto answer = world.take<StatusAnswer>(World::client("operator")).at(0);
    EXPECT_EQ(answer.queues.size(), std::min(i + 1, Tally::tenants_named));
    EXPECT_EQ(answer.more_queues, i == Tally::tenants_named);
  }
}

}  // namespace
}  // namespace millrace::broker::testing
