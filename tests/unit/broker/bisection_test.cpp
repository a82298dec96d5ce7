// Suspects in groups: a killer among many is found in few deaths, other jobs go on beside a group,
// and only jobs that were under way are suspected.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "tests/unit/broker/world.hpp"

namespace millrace::broker::testing {
namespace {

std::vector<LeaseId> ids(const std::vector<Lease>& leases) {
  std::vector<LeaseId> out;
  for (const Lease& lease : leases) out.push_back(lease.lease);
  return out;
}

// One engine at a time, of so many rows. It dies in its first step with a killer and ends the jobs
// of any other step at once. `untold`: it had called all jobs waiting, and died before it told that
// it began them.
struct Outcome {
  int deaths = 0;
  int rounds = 0;  // steps without a death
};
Outcome run(World& world, const std::set<std::string>& killers, std::uint32_t rows,
            bool untold = false) {
  Outcome out;
  std::string engine = "e0";
  world.join_engine(engine, rows);
  while (world.counts().queued + world.counts().leased > 0 && out.rounds < 200) {
    const auto held = world.leases(engine);
    const auto alone = std::ranges::count_if(held, &Lease::alone);
    EXPECT_TRUE(alone == 0 || held.size() == 1) << "a job that runs alone shares its engine";
    if (std::ranges::any_of(held, [&](const Lease& l) { return killers.contains(l.job); })) {
      Heartbeat beat;
      beat.leases = beat.waiting = ids(held);
      if (untold) world.say(World::engine(engine), std::move(beat));
      world.feed(EngineDied{engine});
      engine = "e" + std::to_string(++out.deaths);
      world.join_engine(engine, rows);
      continue;
    }
    ++out.rounds;
    Ends ends;
    for (const Lease& lease : held) ends.ends.push_back(completed(lease.lease));
    world.say(World::engine(engine), std::move(ends));
    world.say(World::engine(engine), Ready{rows});
  }
  return out;
}

TEST(Bisection, FindsOneKillerAmong200InEightDeaths) {
  for (const std::string killer : {"j0", "j3", "j63", "j64", "j199"}) {
    SCOPED_TRACE(killer);
    World world;
    world.join_engine("first");
    world.submit(job_bodies(200));
    world.feed(EngineDied{"first"});
    const Outcome out = run(world, {killer}, 64);
    EXPECT_LE(out.deaths, 8);
    EXPECT_EQ(world.counts().completed, 199u);
    EXPECT_EQ(world.counts().failed, 1u);
    const auto result = world.result_of(killer);
    ASSERT_TRUE(result.error);
    EXPECT_EQ(result.error->code, Code::engine_died);
    EXPECT_EQ(world.broker().counters().dead_lettered, 1u);
    // Without the killer it takes 4 rounds of 64 rows. At the end no jobs are left to fill the rows
    // beside a group.
    EXPECT_LE(out.rounds, 4 + 3);
  }
}

// Whether an engine dies before it could tell depends on time, so these deaths come on top.
TEST(Bisection, AKillerThatBeginsUntoldIsExcusedTwice) {
  World world;
  world.join_engine("first");
  world.submit(job_bodies(200));
  world.feed(EngineDied{"first"});
  EXPECT_EQ(run(world, {"j3"}, 64, true).deaths, static_cast<int>(excused_hand_outs) + 8);
  EXPECT_EQ(world.counts().completed, 199u);
}

TEST(Bisection, FindsSeveralKillersAndAllOthersComplete) {
  World world;
  world.join_engine("first");
  world.submit(job_bodies(300));
  world.feed(EngineDied{"first"});
  const std::set<std::string> killers{"j2", "j3", "j40", "j150", "j299"};
  const Outcome out = run(world, killers, 64);
  EXPECT_LE(out.deaths, 5 * 8);
  EXPECT_EQ(world.counts().completed, 295u);
  EXPECT_EQ(world.counts().failed, 5u);
  for (const std::string& killer : killers) EXPECT_TRUE(world.result_of(killer).error) << killer;
}

TEST(Bisection, GoesOnAfterARestartOfTheBroker) {
  World world;
  world.join_engine("e0", 16);
  world.submit(job_bodies(16));
  world.feed(EngineDied{"e0"});
  for (const std::size_t size : {8, 4, 2, 1}) {
    world.restart();
    const std::string engine = "e" + std::to_string(size);
    world.join_engine(engine, 16);
    const auto held = world.leases(engine);
    EXPECT_EQ(held.size(), size);
    EXPECT_EQ(held.at(0).alone, size == 1);
    world.feed(EngineDied{engine});
  }
  EXPECT_EQ(world.job("j0").failures, 1u);
}

TEST(Bisection, OtherJobsFillTheRowsBesideAGroup) {
  World world;
  world.join_engine("e0", 8);
  world.submit(job_bodies(20));
  world.feed(EngineDied{"e0"});
  world.join_engine("e1", 8);
  const auto held = world.leases("e1");
  ASSERT_EQ(held.size(), 8u);
  EXPECT_EQ(held[0].job, "j0");
  EXPECT_EQ(held[4].job, "j8");
  EXPECT_TRUE(std::ranges::none_of(held, &Lease::alone));
  // No second group comes beside the first.
  world.say(World::engine("e1"), Ends{{completed(held[4].lease), completed(held[0].lease)}});
  world.say(World::engine("e1"), Ready{2});
  const auto next = world.leases("e1");
  ASSERT_EQ(next.size(), 2u);
  EXPECT_EQ(next[0].job, "j12");
}

TEST(Bisection, ABusyEngineGetsAGroupThatHasWaited) {
  World world;
  world.join_engine("dies", 8);
  world.submit(job_bodies(8));
  world.join_engine("busy", 4);
  world.submit(job_bodies(40, "k"));
  auto held = world.leases("busy");
  ASSERT_EQ(held.size(), 4u);
  world.feed(EngineDied{"dies"});
  const auto end_one = [&] {
    world.say(World::engine("busy"), Ends{{completed(held.back().lease)}});
    held.pop_back();
    world.say(World::engine("busy"), Ready{1});
    auto next = world.leases("busy");
    EXPECT_EQ(next.size(), 1u);
    held.insert(held.begin(), next.begin(), next.end());
    return next.empty() ? "" : next[0].job;
  };
  EXPECT_EQ(end_one(), "k4");
  world.live_ms(4'000, {{"busy", ids(held)}});
  EXPECT_EQ(end_one(), "j0");
  EXPECT_EQ(end_one(), "k5") << "one group at a time";
  EXPECT_EQ(world.job("j0").among, 8u);
}

TEST(Blame, IsForJobsUnderWayOnly) {
  World world;
  world.join_engine("e", 4);
  world.submit(job_bodies(4));
  const auto held = world.leases("e");
  Heartbeat beat{ids(held), 1};
  beat.waiting = {held[1].lease, held[2].lease, 999};
  world.say(World::engine("e"), beat, 9);
  world.say(World::engine("e"), Begun{{held[2].lease, 999}});
  world.feed(EngineDied{"e"});
  EXPECT_TRUE(world.job("j0").suspect);
  EXPECT_FALSE(world.job("j1").suspect) << "it waited";
  EXPECT_TRUE(world.job("j2").suspect) << "it had begun since";
  EXPECT_TRUE(world.job("j3").suspect);
  EXPECT_EQ(world.job("j0").among, 3u);
  bool told = false;
  for (const auto& note : world.notes) {
    told = told || note.text.find("3 of its 4 jobs may have been under way") != std::string::npos;
  }
  EXPECT_TRUE(told);
}

TEST(Blame, IsForAllJobsOfAnEngineThatDoesNotTell) {
  World world;
  world.join_engine("e", 3);
  world.submit(job_bodies(3));
  auto held = world.leases("e");
  Heartbeat beat{ids(held), 1};
  beat.waiting = {held[1].lease};
  world.say(World::engine("e"), beat, 9);
  // A restart forgets what the engine said, until its next heartbeat.
  world.restart();
  world.feed(EngineDied{"e"});
  EXPECT_EQ(world.job("j1").among, 3u);
}

TEST(Blame, OfAHangIsForTheJobsOfTheStepThatHangs) {
  World world;
  world.join_engine("e", 3);
  world.submit(job_bodies(3));
  const auto held = world.leases("e");
  Heartbeat beat{ids(held), 7};
  beat.waiting = {held[2].lease};
  for (int s = 0; s < 63; ++s) {
    world.advance_ms(1'000);
    world.say(World::engine("e"), beat, 9);
  }
  ASSERT_EQ(world.hung, std::vector<std::string>{"e"});
  EXPECT_EQ(world.job("j0").among, 2u);
  EXPECT_TRUE(world.job("j1").suspect);
  EXPECT_FALSE(world.job("j2").suspect);
}

TEST(Blame, OfASilenceIsForTheJobsUnderWayAndIsOneIncident) {
  World world;
  world.join_engine("e", 4);
  world.submit(job_bodies(3));
  const auto held = world.leases("e");
  world.advance_ms(1'000);
  Heartbeat beat{ids(held), 7, 0, 1};
  beat.waiting = {held[2].lease};
  world.say(World::engine("e"), beat, 9);
  world.advance_ms(2'000);
  world.submit({job_body("late")});  // its lease lapses two seconds after the others
  EXPECT_EQ(world.leases("e").size(), 1u);
  world.advance_ms(20'000);
  EXPECT_EQ(world.counts().queued, 4u);
  EXPECT_FALSE(world.job("j2").suspect);
  EXPECT_EQ(world.job("late").among, 3u);
  EXPECT_EQ(world.job("late").incident, world.job("j0").incident);
}

TEST(Blame, AHeartbeatThatNamesTooManyWaitingJobsIsRefused) {
  World world;
  world.join_engine("e", 1);
  Heartbeat beat;
  beat.waiting.resize(2 * limits::leases_per_engine + 1);
  world.say(World::engine("e"), beat, 9);
  EXPECT_EQ(world.refusal(World::engine("e")), Code::limit_exceeded);
}

}  // namespace
}  // namespace millrace::broker::testing
