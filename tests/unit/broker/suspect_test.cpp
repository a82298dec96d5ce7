// Suspects: which jobs become suspects, how the last of them run alone, and when a job fails.
// bisection_test.cpp has the groups before that.
#include <gtest/gtest.h>

#include "tests/unit/broker/world.hpp"

namespace millrace::broker::testing {
namespace {

// The engine sends another message between its last heartbeat and its death, so that it counts as
// silent only a moment after its leases have lapsed.
TEST(Suspects, ComeFromADeathThatNobodyReports) {
  World world;
  world.join_engine("e", 2);
  world.submit(job_bodies(2));
  const auto held = world.leases("e");
  world.advance_ms(500);
  world.beat("e", {held[0].lease, held[1].lease}, 1);
  world.advance_ms(1'750);
  world.say(World::engine("e"), Ends{{completed(held[0].lease)}});
  world.advance_ms(20'000);
  EXPECT_EQ(world.job("j1").state, JobState::queued);
  EXPECT_TRUE(world.job("j1").suspect);
}

TEST(Suspects, ComeFromADeathBeforeTheFirstHeartbeatToo) {
  World world;
  world.join_engine("e", 1);
  world.submit({job_body("a")});
  (void)world.leases("e");
  world.advance_ms(1'750);
  world.beat("e", {}, 1);  // it was on its way when the lease was sent
  world.advance_ms(20'000);
  EXPECT_EQ(world.job("a").state, JobState::queued);
  EXPECT_TRUE(world.job("a").suspect);
}

TEST(Suspects, MoreAttemptsMeanMoreDeathsAlone) {
  World world;
  world.join_engine("e0", 1);
  Job job;
  job.id = "a";
  job.model = "m";
  job.request.prompt = "x";
  job.max_attempts = 4;
  world.submit({encode_job(job)});
  for (int death = 0; death < 5; ++death) {
    EXPECT_EQ(world.job("a").state, JobState::leased) << death;
    world.feed(EngineDied{});
    world.join_engine("e" + std::to_string(death + 1), 1);
  }
  EXPECT_EQ(world.job("a").state, JobState::failed);
  EXPECT_EQ(world.job("a").failures, 4u);
}

TEST(Suspects, AreHandedOutAloneBeforeNormalJobs) {
  World world;
  world.join_engine("e1", 2);
  world.submit(job_bodies(6));
  (void)world.leases("e1");
  world.feed(EngineDied{"e1"});
  world.join_engine("e2", 4);
  auto leases = world.leases("e2");
  ASSERT_EQ(leases.size(), 1u);
  EXPECT_TRUE(leases[0].alone);
  EXPECT_EQ(leases[0].job, "j0");
  // Credit has no effect while the suspect runs alone.
  world.beat("e2", {leases[0].lease}, 1, 3);
  world.say(World::engine("e2"), Ready{4});
  EXPECT_TRUE(world.leases("e2").empty());
  world.say(World::engine("e2"), Ends{{completed(leases[0].lease)}});
  leases = world.leases("e2");
  ASSERT_EQ(leases.size(), 1u);
  EXPECT_TRUE(leases[0].alone);
  EXPECT_EQ(leases[0].job, "j1");
  world.say(World::engine("e2"), Ends{{completed(leases[0].lease)}});
  world.say(World::engine("e2"), Ready{4});
  leases = world.leases("e2");
  ASSERT_EQ(leases.size(), 4u);
  EXPECT_FALSE(leases[0].alone);
}

TEST(Suspects, AreNotGivenToABusyEngineUntilTheyWaitedLong) {
  World world;
  world.join_engine("dies", 1);
  world.submit({job_body("a")});
  (void)world.leases("dies");
  world.join_engine("busy", 2);
  world.submit({job_body("b"), job_body("d"), job_body("f"), job_body("g")});
  auto leases = world.leases("busy");
  ASSERT_EQ(leases.size(), 2u);
  world.feed(EngineDied{"dies"});
  // A normal job takes the free slot; the suspect waits.
  world.say(World::engine("busy"), Ends{{completed(leases[0].lease)}});
  world.say(World::engine("busy"), Ready{1});
  auto next = world.leases("busy");
  ASSERT_EQ(next.size(), 1u);
  EXPECT_FALSE(next[0].alone);
  // The suspect has waited long: the engine is kept free for it.
  world.live_ms(33'000, {{"busy", {leases[1].lease, next[0].lease}}});
  world.say(World::engine("busy"), Ends{{completed(leases[1].lease)}});
  world.say(World::engine("busy"), Ready{1});
  EXPECT_TRUE(world.leases("busy").empty());
  world.say(World::engine("busy"), Ends{{completed(next[0].lease)}});
  world.say(World::engine("busy"), Ready{2});
  next = world.leases("busy");
  ASSERT_EQ(next.size(), 1u);
  EXPECT_TRUE(next[0].alone);
  EXPECT_EQ(next[0].job, "a");
  // After it normal jobs run again.
  world.say(World::engine("busy"), Ends{{completed(next[0].lease)}});
  world.say(World::engine("busy"), Ready{2});
  EXPECT_EQ(world.leases("busy").size(), 1u);
}

TEST(Suspects, DoNotWaitForAnEngineThatHangs) {
  World world;
  world.join_engine("dies", 1);
  world.submit({job_body("a")});
  (void)world.leases("dies");
  world.join_engine("hangs", 1);
  world.submit({job_body("b")});
  const auto stuck = world.leases("hangs").at(0).lease;
  world.join_engine("works", 2);
  world.submit(job_bodies(4));
  const auto held = world.leases("works");
  ASSERT_EQ(held.size(), 2u);
  world.feed(EngineDied{"dies"});
  // The engine with fewer jobs is kept free for the suspect, and then makes no more steps.
  world.live_ms(33'000, {{"hangs", {stuck}}, {"works", {held[0].lease, held[1].lease}}});
  for (int s = 0; s < 64; ++s) {
    world.live_ms(1'000, {{"works", {held[0].lease, held[1].lease}}});
    world.beat("hangs", {stuck}, 7);
  }
  ASSERT_EQ(world.hung, std::vector<std::string>{"hangs"});
  world.say(World::engine("works"), Ends{{completed(held[0].lease)}});
  world.say(World::engine("works"), Ready{1});
  EXPECT_TRUE(world.leases("works").empty()) << "it is not kept free for the suspect";
  world.say(World::engine("works"), Ends{{completed(held[1].lease)}});
  world.say(World::engine("works"), Ready{2});
  const auto next = world.leases("works");
  ASSERT_EQ(next.size(), 1u);
  EXPECT_TRUE(next[0].alone);
}

TEST(Suspects, KeepNoEngineOfAnotherModelFromItsWork) {
  World world;
  world.join_engine("dies", 1, "B");
  world.submit({job_body("s", "B")});
  world.join_engine("a", 1, "A");
  world.join_engine("b", 3, "B");
  std::vector<Body> bodies;
  for (int i = 0; i < 10; ++i) {
    bodies.push_back(job_body("j" + std::to_string(i), i % 2 == 0 ? "A" : "B"));
  }
  world.submit(std::move(bodies));
  std::map<std::string, std::vector<LeaseId>> held;
  for (const char* name : {"a", "b"}) {
    for (const auto& lease : world.leases(name)) held[name].push_back(lease.lease);
  }
  ASSERT_EQ(held["a"].size(), 1u);
  world.feed(EngineDied{"dies"});
  world.live_ms(33'000, held);
  std::vector<std::string> kept_free;
  for (const auto& note : world.notes) {
    if (note.text.find("finishes its jobs") != std::string::npos) kept_free.push_back(note.text);
  }
  EXPECT_EQ(kept_free,
            (std::vector<std::string>{"engine b finishes its jobs to run a suspect alone"}));
  world.say(World::engine("a"), Ends{{completed(held["a"].at(0))}});
  world.say(World::engine("a"), Ready{1});
  EXPECT_EQ(world.leases("a").size(), 1u);
}

TEST(Suspects, AreFoundByAnEngineThatComesBackWithTheirModel) {
  World world;
  world.join_engine("dies", 1, "B");
  world.submit({job_body("s", "B")});
  world.join_engine("e", 1, "A");
  world.feed(EngineDied{"dies"});
  EXPECT_TRUE(world.leases("e").empty());
  world.join_engine("e", 1, "B");
  const auto leases = world.leases("e");
  ASSERT_EQ(leases.size(), 1u);
  EXPECT_TRUE(leases[0].alone);
}

TEST(Suspects, RunAloneAlsoOverARestartOfTheBroker) {
  World world;
  world.join_engine("e1", 1);
  world.submit(job_bodies(4));
  (void)world.leases("e1");
  world.feed(EngineDied{"e1"});
  world.join_engine("e2", 4);
  const auto alone = world.leases("e2");
  ASSERT_EQ(alone.size(), 1u);
  world.restart();
  world.join_engine("e2", 4);
  world.beat("e2", {alone[0].lease}, 1, 3);
  EXPECT_TRUE(world.leases("e2").empty());
}

TEST(Suspects, FromBeforeARestartAreFound) {
  World world;
  world.join_engine("e1", 1);
  world.submit(job_bodies(2));
  (void)world.leases("e1");
  world.feed(EngineDied{"e1"});
  world.restart();
  world.join_engine("e2", 4);
  const auto leases = world.leases("e2");
  ASSERT_EQ(leases.size(), 1u);
  EXPECT_TRUE(leases[0].alone);
}

TEST(Hung, AnEngineWithoutProgressLosesItsLeases) {
  World world;
  world.join_engine("e", 1);
  world.submit({job_body("a")});
  const auto lease = world.leases("e").at(0).lease;
  for (int s = 0; s < 58; ++s) {
    world.advance_ms(1'000);
    world.beat("e", {lease}, 7);
  }
  EXPECT_EQ(world.job("a").state, JobState::leased);
  for (int s = 0; s < 5; ++s) {
    world.advance_ms(1'000);
    world.beat("e", {lease}, 7, 1);
  }
  EXPECT_EQ(world.job("a").state, JobState::queued);
  EXPECT_TRUE(world.job("a").suspect);
  EXPECT_EQ(world.hung, std::vector<std::string>{"e"});
  bool told = false;
  for (const auto& answer : world.take<HeartbeatAnswer>(World::engine("e"))) {
    told = told || answer.lost == std::vector<LeaseId>{lease};
  }
  EXPECT_TRUE(told);
  // It gets no job until it makes a step again.
  EXPECT_TRUE(world.leases("e").empty());
  world.beat("e", {}, 8, 1);
  EXPECT_EQ(world.leases("e").size(), 1u);
}

TEST(Hung, TokensAreProgressToo) {
  World world;
  world.join_engine("e", 1);
  world.submit({job_body("a")});
  const auto lease = world.leases("e").at(0).lease;
  for (int s = 0; s < 63; ++s) {
    world.advance_ms(1'000);
    world.beat("e", {lease}, 7);
  }
  ASSERT_EQ(world.hung, std::vector<std::string>{"e"});
  world.say(World::engine("e"), Heartbeat{{}, 7, 12, 1}, 9);
  EXPECT_EQ(world.leases("e").size(), 1u);
}

TEST(Hung, AnIdleEngineNeedNotMove) {
  World world;
  world.join_engine("e", 1);
  for (int s = 0; s < 120; ++s) {
    world.advance_ms(1'000);
    world.beat("e", {}, 7, 1);
  }
  EXPECT_EQ(world.broker().counters().engines_hung, 0u);
  // The time before a job does not count either.
  world.submit({job_body("a")});
  const auto lease = world.leases("e").at(0).lease;
  world.advance_ms(2'000);
  world.beat("e", {lease}, 7);
  EXPECT_EQ(world.job("a").state, JobState::leased);
}

TEST(Silence, OfAnEngineMakesSuspects) {
  World world;
  world.join_engine("e", 2);
  world.submit(job_bodies(2));
  (void)world.leases("e");
  world.advance_ms(14'000);
  EXPECT_EQ(world.counts().leased, 2u);
  world.advance_ms(3'000);
  EXPECT_EQ(world.counts().queued, 2u);
  EXPECT_TRUE(world.job("j0").suspect);
  EXPECT_EQ(world.broker().counters().engines_died, 1u);
}

TEST(Died, MeansTheNamedEngineAlone) {
  World world;
  world.join_engine("e1", 1);
  world.join_engine("e2", 1);
  world.submit(job_bodies(2));
  world.feed(EngineDied{"e1"});
  EXPECT_EQ(world.counts().leased, 1u);
  EXPECT_TRUE(world.job("j0").suspect != world.job("j1").suspect);
}

TEST(Retry, QueuesAFailedJobAgain) {
  World world;
  world.join_engine("e0", 1);
  world.submit({job_body("a", "m", "b")});
  for (int death = 0; death < 3; ++death) {
    world.feed(EngineDied{});
    world.join_engine("e" + std::to_string(death + 1), 1);
  }
  ASSERT_EQ(world.job("a").state, JobState::failed);
  (void)world.leases("e3");
  world.say(World::client("c"), Retry{{}, "b"}, 4);
  const auto retried = world.take<Retried>(World::client("c"));
  ASSERT_EQ(retried.size(), 1u);
  EXPECT_EQ(retried[0].retried, 1u);
  const auto leases = world.leases("e3");
  ASSERT_EQ(leases.size(), 1u);
  EXPECT_FALSE(leases[0].alone);
}

// The jobs fail as fast as they are retried: each is retried once, and the request ends.
TEST(Retry, OfALargeBatchRetriesEachJobOnce) {
  World world;
  world.join_engine("e", 1'000);
  std::vector<Body> bodies;
  for (int i = 0; i < 2'500; ++i) bodies.push_back(job_body("j" + std::to_string(i), "m", "big"));
  world.submit(std::move(bodies));
  const auto fail_all = [&] {
    Ends ends;
    for (const auto& lease : world.leases("e")) ends.ends.push_back(failed_end(lease.lease));
    if (ends.ends.empty()) return;
    world.say(World::engine("e"), std::move(ends));
    world.say(World::engine("e"), Ready{1'000});
  };
  while (world.counts().failed < 2'500) fail_all();
  world.hold_commits = true;
  world.say(World::client("c"), Retry{{}, "big"}, 4);
  for (int i = 0; i < 1'000 && world.commit_one(); ++i) fail_all();
  const auto retried = world.take<Retried>(World::client("c"));
  ASSERT_EQ(retried.size(), 1u);
  EXPECT_EQ(retried[0].retried, 2'500u);
}

}  // namespace
}  // namespace millrace::broker::testing
