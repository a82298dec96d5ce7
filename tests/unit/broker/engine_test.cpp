// Leases: credit, heartbeats, fencing, ends, reconnection, restart.
#include <gtest/gtest.h>

#include "tests/unit/broker/world.hpp"

namespace millrace::broker::testing {
namespace {

TEST(Credit, IsNeverExceeded) {
  World world;
  world.join_engine("e", 2);
  world.submit({job_body("a"), job_body("b"), job_body("d")});
  auto leases = world.leases("e");
  ASSERT_EQ(leases.size(), 2u);
  world.say(World::engine("e"), Ends{{completed(leases[0].lease)}});
  EXPECT_TRUE(world.leases("e").empty());
  world.say(World::engine("e"), Ready{1});
  EXPECT_EQ(world.leases("e").size(), 1u);
}

TEST(Credit, OfAHeartbeatDoesNotCountLeasesOnTheirWay) {
  World world;
  world.join_engine("e", 2);
  world.submit({job_body("a"), job_body("b"), job_body("d")});
  ASSERT_EQ(world.leases("e").size(), 2u);
  // Sent before the two leases reached the engine.
  world.beat("e", {}, 1, 2);
  EXPECT_TRUE(world.leases("e").empty());
}

TEST(Credit, EnginesThatWantWorkShareIt) {
  World world;
  world.join_engine("e1", 4);
  world.join_engine("e2", 4);
  world.submit({job_body("a"), job_body("b"), job_body("d"), job_body("f")});
  EXPECT_EQ(world.leases("e1").size(), 2u);
  EXPECT_EQ(world.leases("e2").size(), 2u);
}

TEST(Dispatch, ALeasesMessageIsBoundedInBytes) {
  World world;
  std::vector<Body> bodies;
  for (int i = 0; i < 8; ++i) {
    Job job;
    job.id = "j" + std::to_string(i);
    job.request.prompt = std::string(i == 3 ? 5 * limits::MiB : limits::MiB, 'x');
    bodies.push_back(encode_job(job));
  }
  world.submit(std::move(bodies));
  world.join_engine("e", 8);
  std::size_t jobs = 0;
  for (const auto& message : world.take<Leases>(World::engine("e"))) {
    std::uint64_t bytes = 0;
    for (const auto& lease : message.leases) bytes += lease.body.size();
    EXPECT_TRUE(bytes <= limits::lease_bytes || message.leases.size() == 1) << bytes;
    jobs += message.leases.size();
  }
  EXPECT_EQ(jobs, 8u) << "the rest follows in further messages";
}

TEST(Dispatch, MatchesTheModel) {
  World world;
  world.join_engine("e1", 4, "m1");
  world.join_engine("e2", 4, "m2");
  world.submit({job_body("a", "m2"), job_body("b", "m1"), job_body("d", "m2")});
  EXPECT_EQ(world.leases("e1").size(), 1u);
  EXPECT_EQ(world.leases("e2").size(), 2u);
}

TEST(Dispatch, GoesByPriorityThenOrder) {
  World world;
  world.join_engine("e");
  Job urgent;
  urgent.id = "urgent";
  urgent.model = "m";
  urgent.request.prompt = "x";
  urgent.priority = 0;
  world.submit({job_body("a"), job_body("b"), encode_job(urgent)});
  world.say(World::engine("e"), Ready{2});
  const auto leases = world.leases("e");
  ASSERT_EQ(leases.size(), 2u);
  EXPECT_EQ(leases[0].job, "urgent");
  EXPECT_EQ(leases[1].job, "a");
  EXPECT_EQ(leases[0].attempt, 1u);
}

TEST(Ends, AreCommittedNumberedAndAnnounced) {
  World world;
  world.join_engine("e", 2);
  world.submit({job_body("a"), job_body("b")});
  const auto leases = world.leases("e");
  world.hold_commits = true;
  world.say(World::engine("e"), Ends{{completed(leases[0].lease), completed(leases[1].lease)}}, 6);
  EXPECT_TRUE(world.take<Committed>(World::engine("e")).empty());
  EXPECT_TRUE(world.rings.empty());
  world.commit();
  const auto committed = world.take<Committed>(World::engine("e"));
  ASSERT_EQ(committed.size(), 1u);
  EXPECT_EQ(committed[0].committed, (std::vector<LeaseId>{leases[0].lease, leases[1].lease}));
  ASSERT_EQ(world.rings.size(), 1u);
  EXPECT_EQ(world.rings[0].high, 2u);
  EXPECT_FALSE(world.rings[0].epoch.empty());
  const auto result = world.result_of("a");
  EXPECT_EQ(result.state, JobState::completed);
  EXPECT_EQ(result.job, "a");
  EXPECT_EQ(result.model, "m");
  EXPECT_EQ(result.attempts, 1u);
  EXPECT_EQ(result.ended_us, world.unix_us);
  EXPECT_EQ(world.broker().counters().finished, 2u);
}

TEST(Ends, CarryTheJobsLabelsEvenIfTheEngineDropsThem) {
  World world;
  world.join_engine("e", 1);
  Job job;
  job.id = "a";
  job.custom_id = "line-7";
  job.model = "m";
  job.request.prompt = "x";
  job.batch = "evening";
  job.metadata = {{"k", "v"}};
  world.submit({encode_job(job)});
  world.say(World::engine("e"), Ends{{completed(world.leases("e").at(0).lease)}});
  const auto result = world.result_of("a");
  EXPECT_EQ(result.custom_id, "line-7");
  EXPECT_EQ(result.batch, "evening");
  EXPECT_EQ(result.metadata, job.metadata);
}

TEST(Ends, SentAgainAreCommittedOnce) {
  World world;
  world.join_engine("e", 1);
  world.submit({job_body("a")});
  const auto lease = world.leases("e").at(0).lease;
  world.hold_commits = true;
  world.say(World::engine("e"), Ends{{completed(lease)}});
  world.say(World::engine("e"), Ends{{completed(lease)}});
  world.commit();
  world.hold_commits = false;
  world.say(World::engine("e"), Ends{{completed(lease)}});
  for (const auto& answer : world.take<Committed>(World::engine("e"))) {
    EXPECT_EQ(answer.committed, std::vector<LeaseId>{lease});
    EXPECT_TRUE(answer.stale.empty());
  }
  EXPECT_EQ(world.stream().size(), 1u);
}

TEST(Ends, AHeartbeatThatListsACommittedLeaseIsAnsweredWithCommitted) {
  World world;
  world.join_engine("e", 1);
  world.submit({job_body("a")});
  const auto lease = world.leases("e").at(0).lease;
  world.say(World::engine("e"), Ends{{completed(lease)}});
  (void)world.take<Committed>(World::engine("e"));
  world.beat("e", {lease}, 1);
  const auto committed = world.take<Committed>(World::engine("e"));
  ASSERT_EQ(committed.size(), 1u);
  EXPECT_EQ(committed[0].committed, std::vector<LeaseId>{lease});
  EXPECT_TRUE(world.take<HeartbeatAnswer>(World::engine("e")).at(0).lost.empty());
}

TEST(Ends, UnderAnotherEnginesLeaseAreStale) {
  World world;
  world.join_engine("e1", 1);
  world.submit({job_body("a")});
  const auto lease = world.leases("e1").at(0).lease;
  world.join_engine("e2");
  world.say(World::engine("e2"), Ends{{completed(lease), completed(9999)}});
  const auto answer = world.take<Committed>(World::engine("e2"));
  ASSERT_EQ(answer.size(), 1u);
  EXPECT_EQ(answer[0].stale, (std::vector<LeaseId>{lease, 9999}));
  EXPECT_TRUE(world.stream().empty());
  EXPECT_EQ(world.broker().counters().stale, 2u);
  world.say(World::engine("e1"), Ends{{completed(lease)}});
  EXPECT_EQ(world.take<Committed>(World::engine("e1")).at(0).committed.size(), 1u);
}

TEST(Ends, ThatCannotBeUsedFailTheJobAndSayWhy) {
  World world;
  world.join_engine("e", 5);
  world.submit({job_body("a"), job_body("b"), job_body("d"), job_body("f"), job_body("g")});
  const auto leases = world.leases("e");
  const Body good = encode_generation({});
  const Body huge = good + std::string(limits::result_bytes, '\xc0');
  const Error both{Code::context_exceeded, "too long", {}};
  world.say(World::engine("e"), Ends{{{leases[0].lease, JobState::completed, {}, {}},
                                      {leases[1].lease, JobState::failed, good, {}},
                                      {leases[2].lease, JobState::completed, huge, {}},
                                      {leases[3].lease, JobState::expired, good, {}},
                                      {leases[4].lease, JobState::completed, good, both}}});
  for (const char* job : {"a", "b", "d", "f", "g"}) {
    const auto result = world.result_of(job);
    EXPECT_EQ(result.state, JobState::failed) << job;
    ASSERT_TRUE(result.error) << job;
    EXPECT_EQ(result.error->code, Code::engine_failed) << job;
  }
}

TEST(Fencing, AResultUnderAnOldLeaseIsStale) {
  World world;
  world.join_engine("slow", 1);
  world.submit({job_body("a")});
  const auto old = world.leases("slow").at(0).lease;
  world.advance_ms(17'000);
  EXPECT_EQ(world.job("a").state, JobState::queued);
  world.join_engine("quick", 1);
  const auto fresh = world.leases("quick").at(0);
  EXPECT_NE(fresh.lease, old);
  EXPECT_TRUE(fresh.alone);
  world.say(World::engine("slow"), Ends{{completed(old)}});
  EXPECT_EQ(world.refusal(World::engine("slow")), Code::unexpected_message);
  world.join_engine("slow");
  world.say(World::engine("slow"), Ends{{completed(old)}});
  EXPECT_EQ(world.take<Committed>(World::engine("slow")).at(0).stale.size(), 1u);
  EXPECT_TRUE(world.stream().empty());
  world.say(World::engine("quick"), Ends{{completed(fresh.lease)}});
  EXPECT_EQ(world.stream().size(), 1u);
}

TEST(Heartbeat, KeepsLeasesForAsLongAsItComes) {
  World world;
  world.join_engine("e", 1);
  world.submit({job_body("a")});
  const auto lease = world.leases("e").at(0).lease;
  world.live_ms(60'000, {{"e", {lease}}});
  EXPECT_EQ(world.job("a").state, JobState::leased);
  EXPECT_EQ(world.broker().counters().engines_died, 0u);
}

TEST(Heartbeat, IsAnsweredWithTheLostLeases) {
  World world;
  world.join_engine("e");
  world.beat("e", {77}, 1);
  EXPECT_EQ(world.take<HeartbeatAnswer>(World::engine("e")).at(0).lost, std::vector<LeaseId>{77});
}

TEST(Heartbeat, SurvivesAJumpOfTheMachinesClock) {
  World world;
  world.join_engine("e", 1);
  world.submit({job_body("a")});
  const auto lease = world.leases("e").at(0).lease;
  world.live_ms(20'000, {{"e", {lease}}});
  world.unix_us += 3'600'000'000;
  world.advance_ms(1'000);
  world.beat("e", {lease}, 1'000);
  world.live_ms(20'000, {{"e", {lease}}});
  EXPECT_EQ(world.job("a").state, JobState::leased);
  EXPECT_EQ(world.job("a").attempts, 1u);
}

TEST(Heartbeat, ALeaseThatNeverArrivedIsGivenBackWithoutBlame) {
  World world;
  world.join_engine("e", 1);
  world.submit({job_body("a")});
  (void)world.leases("e");
  world.live_ms(18'000, {{"e", {}}});
  EXPECT_EQ(world.job("a").state, JobState::queued);
  EXPECT_FALSE(world.job("a").suspect);
}

TEST(Reconnect, KeepsTheLeasesOfTheSameProcess) {
  World world;
  world.join_engine("e", 1);
  world.submit({job_body("a")});
  const auto lease = world.leases("e").at(0).lease;
  world.feed(PeerGone{World::engine("e")});
  world.advance_ms(5'000);
  world.join_engine("e", 0, "m", "other-route");
  world.say(World::engine("other-route"), Heartbeat{{lease}, 1, 0, 0});
  world.say(World::engine("other-route"), Ends{{completed(lease)}});
  EXPECT_EQ(world.take<Committed>(World::engine("other-route")).at(0).committed.size(), 1u);
}

TEST(Reconnect, AnotherProcessOnTheSameRouteReplacesTheEarlierOne) {
  World world;
  world.join_engine("e", 1);
  world.submit({job_body("a")});
  (void)world.leases("e");
  Hello hello;
  hello.role = Role::engine;
  hello.name = "e";
  hello.instance = "e-second";
  hello.engine.facts.model = "m";
  world.say(World::engine("e"), hello, 1);
  EXPECT_TRUE(world.job("a").suspect);
  world.say(World::engine("e"), Ready{1});
  ASSERT_EQ(world.leases("e").size(), 1u);
  EXPECT_EQ(world.job("a").engine, "e-second");
}

TEST(Restart, KeepsLiveLeases) {
  World world;
  world.join_engine("e", 2);
  world.submit({job_body("a"), job_body("b")});
  const auto leases = world.leases("e");
  world.restart();
  world.unix_us += 60'000'000;  // the broker was away for longer than a lease
  world.advance_ms(10'000);
  world.beat("e", {leases[0].lease}, 5);
  EXPECT_EQ(world.refusal(World::engine("e")), Code::unexpected_message);
  world.join_engine("e");
  world.live_ms(20'000, {{"e", {leases[0].lease, leases[1].lease}}});
  EXPECT_EQ(world.job("a").state, JobState::leased);
  world.say(World::engine("e"), Ends{{completed(leases[0].lease), completed(leases[1].lease)}});
  EXPECT_EQ(world.stream().size(), 2u);
  EXPECT_EQ(world.result_of("a").attempts, 1u);
}

TEST(Restart, EnginesThatDoNotComeBackMakeSuspects) {
  World world;
  world.join_engine("e", 1);
  world.submit({job_body("a")});
  (void)world.leases("e");
  world.restart();
  world.advance_ms(14'000);
  EXPECT_EQ(world.job("a").state, JobState::leased);
  world.advance_ms(3'000);
  EXPECT_EQ(world.job("a").state, JobState::queued);
  EXPECT_TRUE(world.job("a").suspect);
}

TEST(Restart, OfAnEmbeddedBrokerGivesAllLeasesBackWithoutBlame) {
  World world;
  world.join_engine("e", 2);
  world.submit({job_body("a"), job_body("b")});
  (void)world.leases("e");
  CoreConfig config;
  config.previous_engines_are_gone = true;
  world.reconfigure(config);
  world.restart();
  EXPECT_EQ(world.counts().queued, 2u);
  EXPECT_FALSE(world.job("a").suspect);
}

}  // namespace
}  // namespace millrace::broker::testing
