// Engines of one model that are not equally fast share a queue so that both are done together.
#include <gtest/gtest.h>

#include <cstdio>

#include "broker/core/engine_speed.hpp"
#include "broker/core/speed_share.hpp"
#include "tests/unit/broker/stub_engine.hpp"

namespace millrace::broker::testing {
namespace {

constexpr std::uint32_t rows = 16;
constexpr int slower = 10;  // the slow engine makes a step where the fast one makes so many
constexpr std::int64_t step_us = 25'000;

// A fast and a slow engine. Time passes with their steps.
class TwoEngines {
 public:
  // One client and another, of two tenants, and engines that work for both.
  TwoEngines() : world_(two_tenants()) {
    world_.keys[World::client("c")] = "key of one";
    world_.keys[World::client("other")] = "key of other";
    for (const char* engine : {"fast", "slow"}) world_.keys[World::engine(engine)] = "key of all";
    world_.join_client("other");
    fast_.emplace(world_, rows, "fast");
    slow_.emplace(world_, rows, "slow");
  }

  // Steps of the fast engine until so many jobs of so many steps each have ended.
  int run(int jobs, std::uint32_t steps_each) {
    std::vector<Body> bodies;
    for (int i = 0; i < jobs; ++i) {
      bodies.push_back(job_of("j" + std::to_string(submitted_++), steps_each + 8));
    }
    world_.submit(std::move(bodies));
    std::size_t ended = 0;
    int steps = 0;
    while (ended < static_cast<std::size_t>(jobs) && steps < 100'000) {
      ++steps;
      ended += step();
    }
    return steps;
  }
  // The other client's jobs, and what it asks next.
  void submit_other(std::vector<Body> jobs) {
    world_.say(World::client("other"), Submit{std::move(jobs)}, 7);
  }
  void pause_other() {
    ChangePause all;
    all.all = all.paused = true;
    world_.say(World::client("other"), all, 8);
  }
  void submit(std::vector<Body> jobs) { world_.submit(std::move(jobs)); }
  void pause(const std::string& batch) {
    world_.say(World::client("c"), ChangePause{batch, {}, false, true}, 8);
  }
  void restart_broker() {
    fast_->receive();
    slow_->receive();
    world_.restart();
    world_.join_client("c");
    fast_->join_again();
    slow_->join_again();
  }
  std::int64_t now_us() const { return world_.unix_us; }
  void rest(int steps) {
    for (int i = 0; i < steps; ++i) step();
  }

 private:
  std::size_t step() {
    world_.mono_us += step_us;
    world_.unix_us += step_us;
    ++made_;
    if (made_ % 10 == 0) world_.feed(Tick{});
    if (made_ % 40 == 0) {
      fast_->beat();
      slow_->beat();
    }
    std::size_t ended = fast_->step().size();
    if (made_ % slower == 0) ended += slow_->step().size();
    return ended;
  }

  static CoreConfig two_tenants() {
    CoreConfig config;
    config.grants.emplace();
    config.grants->push_back({"one", "one", {KeyRole::submit}, "key of one"});
    config.grants->push_back({"other", "other", {KeyRole::submit}, "key of other"});
    config.grants->push_back({"all", "*", {KeyRole::work}, "key of all"});
    return config;
  }

  World world_;
  std::optional<StubEngine> fast_, slow_;
  int submitted_ = 0, made_ = 0;
};

double ideal(int jobs, std::uint32_t steps_each) {
  return double(jobs) * steps_each / (rows + double(rows) / slower);
}

TEST(Speed, ASlowEngineDoesNotHoldTheEndOfAQueue) {
  constexpr std::uint32_t each = 40;
  TwoEngines engines;
  const int steps = engines.run(1'000, each);
  std::printf("%d steps, %.0f at least\n", steps, ideal(1'000, each));
  EXPECT_LE(steps, 1.1 * ideal(1'000, each));
}

TEST(Speed, AShortQueueGoesToTheFastEngineOnceBothAreKnown) {
  constexpr std::uint32_t each = 40;
  TwoEngines engines;
  engines.run(400, each);
  engines.rest(1'000);
  const int steps = engines.run(24, each);
  EXPECT_LE(steps, 2 * int(each) + 2) << "a job alone takes " << slower * each << " on the other";
}

// Jobs that cannot be handed out are no work for the fast engine, however many they are.
TEST(Speed, AShortQueueGoesToTheFastEngineBesideJobsThatWait) {
  constexpr std::uint32_t each = 40;
  const auto steps_beside = [](auto&& others) {
    TwoEngines engines;
    engines.run(400, each);
    others(engines);
    engines.rest(1'000);
    const int steps = engines.run(60, each);
    std::printf("%d steps\n", steps);
    return steps;
  };
  const int most = 5 * int(each);  // four waves on the fast engine; one takes ten on the other
  EXPECT_LE(steps_beside([](TwoEngines& engines) {
              engines.pause_other();
              engines.submit_other(job_bodies(500, "paused"));
            }),
            most)
      << "of a paused tenant";
  EXPECT_LE(steps_beside([](TwoEngines& engines) {
              engines.submit({job_of("b", 48, 2, "batch")});
              engines.pause("batch");
              std::vector<Body> bodies;
              for (int i = 0; i < 500; ++i) {
                bodies.push_back(job_of("b" + std::to_string(i), 48, 2, "batch"));
              }
              engines.submit(std::move(bodies));
            }),
            most)
      << "of a paused batch";
  EXPECT_LE(steps_beside([](TwoEngines& engines) {
              std::vector<Body> bodies;
              for (int i = 0; i < 500; ++i) {
                Job job;
                job.id = "later" + std::to_string(i);
                job.request.prompt = "x";
                job.not_before_us = engines.now_us() + 3'600'000'000;
                bodies.push_back(encode_job(job));
              }
              engines.submit(std::move(bodies));
            }),
            most)
      << "that start in an hour";
}

// What a restarted broker finds leased costs what it did.
TEST(Speed, LeasesFromBeforeARestartAreCounted) {
  constexpr std::uint32_t each = 40;
  TwoEngines engines;
  std::vector<Body> bodies;
  for (int i = 0; i < 48; ++i) bodies.push_back(job_of("before" + std::to_string(i), each + 8));
  engines.submit(std::move(bodies));
  engines.restart_broker();
  engines.rest(2'000);
  engines.run(1, each);  // so that the restarted broker knows how much is queued
  engines.rest(1'000);
  const int steps = engines.run(60, each);
  EXPECT_LE(steps, 5 * int(each)) << "one wave takes ten on the slow engine";
}

TEST(Speed, TheSlowEngineTakesOverWhenTheFastOneLeaves) {
  World world;
  StubEngine slow(world, rows, "slow");
  {
    StubEngine fast(world, rows, "fast");
    world.submit(job_bodies(200));
    for (int i = 0; i < 400; ++i) {
      world.mono_us += step_us;
      fast.step();
      if (i % slower == 0) slow.step();
    }
  }
  world.submit(job_bodies(10, "more"));
  world.say(World::engine("fast"), Goodbye{});
  std::size_t ended = 0;
  for (int i = 0; i < 400 && ended < 10; ++i) {
    world.mono_us += slower * step_us;
    if (i % 4 == 0) slow.beat();
    ended += slow.step().size();
  }
  EXPECT_GE(ended, 10u);
}

EngineLoad load(double speed, double held, bool asks = true, std::uint32_t of_rows = 0) {
  return {speed, held, of_rows, asks};
}

TEST(SpeedShare, EqualEnginesShareEqually) {
  const EngineLoad other[] = {load(10, 0)};
  EXPECT_EQ(jobs_by_speed(load(10, 0), other, 10, 5, 100), 5u);
  EXPECT_EQ(jobs_by_speed(load(10, 0), other, 1, 5, 100), 1u);
  EXPECT_EQ(jobs_by_speed(load(10, 0), other, 0, 5, 100), 0u);
  EXPECT_EQ(jobs_by_speed(load(10, 0), other, UINT64_MAX, 5, 100), 100u);
  const EngineLoad both[] = {load(10, 15), load(10, 15)};
  EXPECT_EQ(jobs_by_speed(load(10, 15), both, 1, 5, 100), 1u) << "one of them takes the last one";
}

TEST(SpeedShare, EachTakesWhatItEndsNoLaterThanTheOthers) {
  const EngineLoad fast[] = {load(100, 50, false)};
  // With n jobs more the fast one is done after (50 + 5 n) / 100 s, the slow one after n / 2 s.
  EXPECT_EQ(jobs_by_speed(load(10, 0), fast, 1, 5, 100), 1u) << "0.5 s here, 0.55 s there";
  EXPECT_EQ(jobs_by_speed(load(9, 0), fast, 1, 5, 100), 0u);
  EXPECT_EQ(jobs_by_speed(load(10, 0), fast, 10, 5, 100), 1u);
  EXPECT_EQ(jobs_by_speed(load(10, 10), fast, 10, 5, 100), 0u);
  EXPECT_EQ(jobs_by_speed(load(10, 0), fast, 1'000, 5, 100), 91u);
  const EngineLoad slow[] = {load(10, 0)};
  EXPECT_EQ(jobs_by_speed(load(100, 0), slow, 8, 5, 100), 8u);
}

TEST(SpeedShare, AJobTakesItsTimeHoweverFewRunBesideIt) {
  const EngineLoad fast[] = {load(100, 0, true, 10)};
  EXPECT_EQ(jobs_by_speed(load(10, 0, true, 10), fast, 20, 5, 100), 0u) << "5 s here, 1 s there";
  const EngineLoad equal[] = {load(100, 45, true, 10)};
  EXPECT_EQ(jobs_by_speed(load(100, 0, true, 10), equal, 1, 5, 100), 1u);
}

TEST(EngineSpeed, LeavesOutEndsOfUnknownCost) {
  EngineSpeed speed;
  speed.pass_time(1'000'000, 0);
  speed.pass_time(3'000'000, 2);
  speed.ended(0);
  EXPECT_EQ(speed.tokens_per_job(), 0);
  speed.ended(100);
  EXPECT_EQ(speed.tokens_per_job(), 100);
  EXPECT_EQ(speed.tokens_per_second(), 50);
}

TEST(EngineSpeed, CountsTheTimeInWhichJobsAreHeld) {
  EngineSpeed speed;
  EXPECT_EQ(speed.tokens_per_second(), 0);
  std::int64_t now_us = 1'000'000'000;
  speed.pass_time(now_us, 0);
  for (int wave = 0; wave < 20; ++wave) {  // 64 jobs of 100 tokens begin and end together
    now_us += 2'000'000;
    speed.pass_time(now_us, 64);
    for (int i = 0; i < 64; ++i) speed.ended(100);
    now_us += 60'000'000;  // without work
    speed.pass_time(now_us, 0);
  }
  EXPECT_NEAR(speed.tokens_per_second(), 3'200, 1);
  EXPECT_NEAR(speed.tokens_per_job(), 100, 1);
  for (int wave = 0; wave < 6; ++wave) {  // it has become slow
    now_us += 20'000'000;
    speed.pass_time(now_us, 64);
    for (int i = 0; i < 64; ++i) speed.ended(100);
  }
  EXPECT_NEAR(speed.tokens_per_second(), 320, 1) << "what was long ago is forgotten";
}

}  // namespace
}  // namespace millrace::broker::testing
