// Who may do what: roles, tenants, revoked keys. Nothing of one tenant is visible to another.
#include <gtest/gtest.h>

#include "tests/unit/broker/tenants.hpp"

namespace millrace::broker::testing {
namespace {

TEST(AccessTest, OneTenantsJobsAndResultsAreAbsentForAnother) {
  Tenants world;
  world.complete("a", "job");
  EXPECT_EQ(world.ask_as<Data>("a", fetch_from("results")).entries.size(), 1u);
  const Data seen = world.ask_as<Data>("b", fetch_from("results"));
  const Data absent = world.ask_as<Data>("b", fetch_from("no such stream"));
  EXPECT_TRUE(seen.entries.empty());
  EXPECT_EQ(seen.first, absent.first);
  EXPECT_EQ(seen.high, absent.high);

  StatusRequest of_job;
  of_job.job = "job";
  const auto refused = world.ask_as<Refused>("b", of_job).error;
  of_job.job = "none";
  auto unknown = world.ask_as<Refused>("b", of_job).error;
  EXPECT_EQ(refused.code, unknown.code);
  EXPECT_EQ(refused.hint, unknown.hint);

  const auto cancelled = world.ask_as<Cancelled>("b", Cancel{{"job"}, {}});
  EXPECT_EQ(cancelled.unknown, 1u);
  EXPECT_EQ(cancelled.ended, 0u);
  EXPECT_EQ(world.ask_as<Retried>("b", Retry{{"job"}, {}}).unknown, 1u);
  EXPECT_EQ(world.ask_as<StatusAnswer>("b", StatusRequest{}).counts.completed, 0u);
  EXPECT_EQ(world.ask_as<StatusAnswer>("a", StatusRequest{}).counts.completed, 1u);
}

TEST(AccessTest, TheSameIdsBatchesStreamsAndCursorsOfTwoTenantsAreTwo) {
  Tenants world;
  EXPECT_FALSE(world.submit_as("a", {job_body("job", "*", "batch")}).at(0).known);
  EXPECT_FALSE(world.submit_as("b", {job_body("job", "*", "batch")}).at(0).known);
  EXPECT_EQ(world.ask_as<Cancelled>("b", Cancel{{}, "batch"}).cancelled, 1u);
  StatusRequest of_batch;
  of_batch.batch = "batch";
  EXPECT_EQ(world.ask_as<StatusAnswer>("a", of_batch).counts.queued, 1u);
  EXPECT_EQ(world.ask_as<StatusAnswer>("b", of_batch).counts.cancelled, 1u);
  // B's cancelled job is the first result of B's stream; A's stream has none yet.
  EXPECT_EQ(world.ask_as<Acknowledged>("b", Acknowledge{"results", "cursor", 1}).number, 1u);
  EXPECT_EQ(world.ask_as<Refused>("a", Acknowledge{"results", "cursor", 1}).error.code,
            Code::not_found);
  ASSERT_FALSE(world.rings.empty());
  for (const Ring& ring : world.rings) EXPECT_EQ(ring.tenant, "B");
}

TEST(AccessTest, PausesOfATenantAreItsOwn) {
  Tenants world;
  world.submit_as("a", {job_body("job", "*", "batch")});
  const auto code = [&](const char* who, ChangePause change) {
    return world.ask_as<Refused>(who, std::move(change)).error.code;
  };
  EXPECT_EQ(code("b", {"batch"}), code("b", {"nobody"}));
  EXPECT_EQ(code("b", {"batch"}), Code::not_found);
  world.join_engine("engine-a");  // its model is m
  EXPECT_EQ(code("b", {"", "m"}), code("b", {"", "nobody"}));
  EXPECT_TRUE(world.ask_as<PauseChanged>("b", ChangePause{"", "", true}).changed);
  EXPECT_FALSE(world.ask_as<StatusAnswer>("a", StatusRequest{}).paused);
  world.say(World::engine("engine-a"), Ready{5});
  EXPECT_EQ(world.leases("engine-a").size(), 1u);
}

TEST(AccessTest, EnginesGetJobsOfTheirTenantAlone) {
  Tenants world;
  world.submit_as("a", {job_body("a1", "*"), job_body("a2", "*")});
  world.submit_as("b", {job_body("b1", "*"), job_body("b2", "*")});
  world.join_engine("engine-b", 10);
  const auto leases = world.leases("engine-b");
  ASSERT_EQ(leases.size(), 2u);
  for (const Lease& lease : leases) EXPECT_EQ(lease.job.front(), 'b');
  world.join_engine("engine-all", 10);
  EXPECT_EQ(world.leases("engine-all").size(), 2u);
}

TEST(AccessTest, AnEngineForEveryTenantServesThemInTurn) {
  Tenants world;
  std::vector<Body> jobs;
  for (int i = 0; i < 500; ++i) jobs.push_back(job_body("a" + std::to_string(i), "*"));
  world.submit_as("a", std::move(jobs));
  world.submit_as("b", {job_body("b1", "*")});
  world.join_engine("engine-all", 100);
  std::size_t place = 0, found = 0;
  for (const Lease& lease : world.leases("engine-all")) {
    ++place;
    if (lease.job == "b1") found = place;
  }
  EXPECT_GT(found, 0u);
  EXPECT_LE(found, 66u);  // after at most one claim for the other tenant
}

TEST(AccessTest, AnEngineCannotTouchTheLeasesOfAnotherKey) {
  Tenants world;
  world.submit_as("a", {job_body("job", "*")});
  world.join_engine("engine-a", 1);
  const LeaseId lease = world.leases("engine-a").at(0).lease;

  // An engine of B that claims to be the process of A's engine.
  Hello hello;
  hello.role = Role::engine;
  hello.name = hello.instance = "engine-a";
  hello.engine.facts.model = "m";
  world.say(World::engine("engine-b"), hello, 1);
  EXPECT_EQ(world.take<Welcome>(World::engine("engine-b")).size(), 1u);
  world.say(World::engine("engine-b"), Ends{{completed(lease)}}, 2);
  EXPECT_EQ(world.take<Committed>(World::engine("engine-b")).at(0).stale,
            std::vector<LeaseId>{lease});
  world.say(World::engine("engine-b"), Release{{lease}}, 3);
  world.say(World::engine("engine-b"), Heartbeat{{lease}, 1, 0, 0}, 4);
  EXPECT_EQ(world.take<HeartbeatAnswer>(World::engine("engine-b")).at(0).lost,
            std::vector<LeaseId>{lease});

  world.say(World::engine("engine-a"), Ends{{completed(lease)}}, 5);
  EXPECT_EQ(world.take<Committed>(World::engine("engine-a")).at(0).committed,
            std::vector<LeaseId>{lease});
  // After the commit, too, the lease is for others one that does not exist.
  world.say(World::engine("engine-b"), Ends{{completed(lease)}}, 6);
  EXPECT_EQ(world.take<Committed>(World::engine("engine-b")).at(0).stale,
            std::vector<LeaseId>{lease});
}

TEST(AccessTest, AnotherKeysEndOnItsWayDoesNotSwallowTheRealOne) {
  Tenants world;
  world.submit_as("a", {job_body("job", "*")});
  world.join_engine("engine-a", 1);
  world.join_engine("engine-b");
  const LeaseId lease = world.leases("engine-a").at(0).lease;
  world.hold_commits = true;
  world.say(World::engine("engine-b"), Ends{{completed(lease)}}, 2);
  world.say(World::engine("engine-a"), Ends{{completed(lease)}}, 3);
  world.commit();
  EXPECT_EQ(world.take<Committed>(World::engine("engine-a")).at(0).committed,
            std::vector<LeaseId>{lease});
}

TEST(AccessTest, PartialsReachWatchersOfTheTenantAlone) {
  Tenants world;
  world.ask_as<Watching>("a", Watch{"results", true});
  world.ask_as<Watching>("b", Watch{"results", true});
  world.submit_as("a", {job_body("job", "*")});
  world.join_engine("engine-a", 1);
  PartialEntry entry;
  entry.lease = world.leases("engine-a").at(0).lease;
  world.say(World::engine("engine-a"), Partials{{}, {entry}});
  EXPECT_EQ(world.take<Partials>(World::client("a")).size(), 1u);
  EXPECT_EQ(world.take<Partials>(World::client("b")).size(), 0u);
}

TEST(AccessTest, StatusShowsTheEnginesThatWorkForTheTenant) {
  Tenants world;
  world.join_engine("engine-a");
  world.join_engine("engine-all");
  EXPECT_EQ(world.ask_as<StatusAnswer>("a", StatusRequest{}).engines.size(), 2u);
  EXPECT_EQ(world.ask_as<StatusAnswer>("b", StatusRequest{}).engines.size(), 1u);
}

TEST(AccessTest, AModelOfOneTenantsEngineIsUnknownToOthers) {
  Tenants world;
  world.join_engine("engine-a", 0, "private");
  world.join_engine("engine-all", 0, "shared");
  world.restart();  // the names come from the ledger
  world.join_client("a");
  world.join_client("b");
  EXPECT_FALSE(world.submit_as("a", {job_body("1", "private")}).at(0).error);
  EXPECT_EQ(world.submit_as("b", {job_body("1", "private")}).at(0).error->code,
            Code::unknown_model);
  EXPECT_FALSE(world.submit_as("b", {job_body("2", "shared")}).at(0).error);
}

TEST(AccessTest, PushedJobsBelongToTheKeysTenant) {
  Tenants world;
  const Peer push{Endpoint::push, {}};
  world.keys[push] = "key of b";
  world.say(push, Submit{{job_body("pushed", "*"), job_body("bad", "no such model")}});
  EXPECT_EQ(world.ask_as<StatusAnswer>("b", StatusRequest{}).counts.queued, 1u);
  EXPECT_EQ(world.ask_as<StatusAnswer>("a", StatusRequest{}).counts.queued, 0u);
  EXPECT_EQ(world.ask_as<Data>("b", fetch_from("rejected")).entries.size(), 1u);
  EXPECT_EQ(world.ask_as<Data>("a", fetch_from("rejected")).entries.size(), 0u);
}

TEST(AccessTest, ARefusalIsLoggedOnceAndCountedEachTime) {
  Tenants world;
  world.join_client("reader");
  world.notes.clear();
  for (int i = 0; i < 5; ++i) {
    world.ask_as<Refused>("reader", Submit{{job_body("x", "*")}});
  }
  EXPECT_EQ(world.broker().counters().unauthorized, 5u);
  ASSERT_EQ(world.notes.size(), 1u);
  EXPECT_NE(world.notes[0].text.find("key reader of tenant A"), std::string::npos);
}

TEST(AccessTest, ARevokedKeyLosesItsSessionAndEveryLaterMessageIsRefused) {
  Tenants world;
  world.submit_as("a", {job_body("job", "*")});
  world.join_engine("engine-a", 1);
  ASSERT_EQ(world.leases("engine-a").size(), 1u);
  auto left = Tenants::grants();
  std::erase_if(left, [](const Grant& g) { return g.name == "a" || g.name == "engine-a"; });
  world.feed(GrantsChanged{left});
  EXPECT_EQ(world.take<Goodbye>(World::client("a")).size(), 1u);
  EXPECT_EQ(world.take<Goodbye>(World::engine("engine-a")).size(), 1u);
  EXPECT_EQ(world.take<Goodbye>(World::client("b")).size(), 0u);
  EXPECT_EQ(world.broker().sessions(), 1u);
  world.say(World::client("a"), fetch_from("results"), 2);
  EXPECT_EQ(world.refusal(World::client("a")), Code::unauthorized);
  world.say(World::client("a"), Hello{}, 3);
  EXPECT_EQ(world.refusal(World::client("a")), Code::unauthorized);
  // Its job went back without blame, and another engine takes it.
  world.join_engine("engine-all", 1);
  const auto leases = world.leases("engine-all");
  ASSERT_EQ(leases.size(), 1u);
  EXPECT_FALSE(leases[0].alone);
}

TEST(AccessTest, AChangeOfRolesOrTenantEndsTheSessionToo) {
  Tenants world;
  auto changed = Tenants::grants();
  changed[0].tenant = "B";
  world.feed(GrantsChanged{changed});
  EXPECT_EQ(world.take<Goodbye>(World::client("a")).size(), 1u);
  world.join_client("a");
  world.submit_as("a", {job_body("job", "*")});
  EXPECT_EQ(world.ask_as<StatusAnswer>("b", StatusRequest{}).counts.queued, 1u);
}

TEST(AccessTest, TheSessionsOfATenantAreLimitedAndTheRefusalSaysSo) {
  CoreConfig config = Tenants::config(Tenants::grants());
  config.sessions_per_tenant = 2;
  World world(config);
  for (const std::string name : {"a1", "a2", "a3"}) world.keys[World::client(name)] = "key of a";
  world.keys[World::client("b")] = "key of b";
  world.join_client("a1");
  world.join_client("a2");
  world.say(World::client("a3"), Hello{}, 1);
  const auto refused = world.take<Refused>(World::client("a3"));
  ASSERT_EQ(refused.size(), 1u);
  EXPECT_EQ(refused[0].error.code, Code::overloaded);
  EXPECT_NE(refused[0].error.message.find("tenant A has 2 sessions"), std::string::npos);
  world.say(World::client("b"), Hello{}, 1);
  EXPECT_EQ(world.take<Welcome>(World::client("b")).size(), 1u);
}

TEST(AccessTest, AnotherKeyOnTheSameRouteHasNoSession) {
  Tenants world;
  world.keys[World::client("a")] = "key of b";
  world.say(World::client("a"), fetch_from("results"), 2);
  EXPECT_EQ(world.refusal(World::client("a")), Code::unexpected_message);
}

TEST(AccessToStreams, OnlyAnAdministratorOfTheTenantChangesThem) {
  auto grants = Tenants::grants();
  grants.push_back(grant_to("admin", "A", {KeyRole::admin}));
  Tenants world;
  world.reconfigure(Tenants::config(grants));
  world.keys[World::client("admin")] = "key of admin";
  world.restart();
  for (const std::string name : {"a", "b", "admin"}) world.join_client(name);
  world.complete("a", "job");
  for (const Message& change : std::vector<Message>{Trim{"results", 2}, Keep{"results", {1, 1, 1}},
                                                    Remove{"results", ""}}) {
    EXPECT_EQ(world.ask_as<Refused>("a", change).error.code, Code::unauthorized);
  }
  EXPECT_EQ(world.ask_as<StreamsAnswer>("a", StreamsRequest{}).streams.size(), 1u);
  EXPECT_TRUE(world.ask_as<StreamsAnswer>("b", StreamsRequest{}).streams.empty());
  EXPECT_EQ(world.ask_as<Refused>("b", CursorsRequest{"results"}).error.code, Code::not_found);
  EXPECT_EQ(world.ask_as<StreamChanged>("admin", Trim{"results", 2}).stream.first, 2u);
}

}  // namespace
}  // namespace millrace::broker::testing
