// Requests about stored jobs: listing, dropping; jobs that wait for their start or run again.
#include <gtest/gtest.h>

#include "tests/unit/broker/world.hpp"

namespace millrace::broker::testing {
namespace {

const Peer lister = World::client("c");

JobEnd broken_end(LeaseId lease) {
  return {lease, JobState::failed, {}, Error{Code::out_of_memory, "no memory", {}}};
}

std::vector<JobInfo> list(World& world, JobsRequest wanted) {
  world.say(lister, std::move(wanted), 11);
  auto answers = world.take<JobsAnswer>(lister);
  return answers.empty() ? std::vector<JobInfo>{} : answers.back().jobs;
}

Body timed_job(const std::string& id, std::optional<std::int64_t> not_before_us,
               std::optional<std::int64_t> deadline_us = {}) {
  Job job;
  job.id = id;
  job.model = "m";
  job.request.prompt = "say " + id;
  job.not_before_us = not_before_us;
  job.deadline_us = deadline_us;
  return encode_job(job);
}

TEST(Jobs, AreListedWithTheEnginesName) {
  World world;
  Hello hello;
  hello.role = Role::engine;
  hello.name = "a name for people";
  hello.instance = "e";
  hello.engine.facts.model = "m";
  world.say(World::engine("e"), hello, 1);
  world.say(World::engine("e"), Ready{1});
  world.submit({job_body("a"), job_body("b", "m", "batch")});
  const auto jobs = list(world, {});
  ASSERT_EQ(jobs.size(), 2u);
  EXPECT_EQ(jobs[0].engine, "a name for people");
  EXPECT_EQ(jobs[1].engine, "");
  EXPECT_EQ(list(world, {.batch = "batch"}).at(0).job, "b");
  EXPECT_EQ(list(world, {.state = JobState::leased}).at(0).job, "a");
  world.say(lister, JobsRequest{.job = "z"}, 12);
  EXPECT_EQ(world.refusal(lister), Code::not_found);
  world.say(lister, JobsRequest{.batch = "batch", .after = "no place"}, 13);
  EXPECT_EQ(world.refusal(lister), Code::invalid_value);
}

TEST(Jobs, ThatFailedTellWhyAndAreDropped) {
  World world;
  world.join_engine("e", 5);
  world.submit({job_body("a", "m", "batch"), job_body("b", "m", "batch")});
  const auto leases = world.leases("e");
  world.say(World::engine("e"), Ends{{failed_end(leases[0].lease), completed(leases[1].lease)}});
  const auto failed = list(world, {.state = JobState::failed});
  ASSERT_EQ(failed.size(), 1u);
  EXPECT_EQ(failed[0].error, (Error{Code::context_exceeded, "too long", {}}));
  world.say(lister, Drop{{}, "batch"}, 12);
  EXPECT_EQ(world.take<Dropped>(lister).at(0), (Dropped{1, 0, 0}));
  EXPECT_TRUE(list(world, {.state = JobState::failed}).empty());
  world.say(lister, Drop{{"b", "z"}, ""}, 13);
  EXPECT_EQ(world.take<Dropped>(lister).at(0), (Dropped{0, 1, 1}));
  world.say(lister, Drop{{}, "batch"}, 14);  // the batch is there, and none of its jobs has failed
  EXPECT_EQ(world.take<Dropped>(lister).at(0), Dropped{});
  world.say(lister, Drop{{}, "no batch"}, 15);
  EXPECT_EQ(world.refusal(lister), Code::not_found);
  for (const Drop& unclear : {Drop{}, Drop{{"a"}, "batch"}}) {
    world.say(lister, unclear, 16);
    EXPECT_EQ(world.refusal(lister), Code::invalid_value);
  }
}

TEST(Jobs, OfAWholeBatchAreDroppedOverManyTransactions) {
  World world;
  world.join_client("c");
  world.join_engine("e");
  std::vector<Body> bodies;
  for (int i = 0; i < 2'300; ++i) bodies.push_back(job_body("j" + std::to_string(i), "m", "batch"));
  world.submit(std::move(bodies));
  while (world.counts().queued > 0) {
    world.say(World::engine("e"), Ready{1'000});
    Ends ends;
    for (const auto& lease : world.leases("e")) ends.ends.push_back(failed_end(lease.lease));
    world.say(World::engine("e"), std::move(ends));
  }
  world.say(lister, Drop{{}, "batch"}, 12);
  EXPECT_EQ(world.take<Dropped>(lister).at(0).dropped, 2'300u);
  EXPECT_EQ(world.counts(), JobCounts{});
}

TEST(Start, AJobIsHandedOutWhenItsTimeHasComeAlsoAfterARestart) {
  World world;
  world.join_engine("e", 5);
  world.submit({timed_job("later", world.unix_us + 10'000'000), job_body("now")});
  EXPECT_EQ(world.leases("e").at(0).job, "now");
  world.say(lister, StatusRequest{"later", "", ""}, 12);
  EXPECT_EQ(world.take<StatusAnswer>(lister).at(0).job_waits, "it starts in 10 s");
  world.restart();
  world.join_engine("e", 5);
  world.live_ms(9'000, {{"e", {}}});
  EXPECT_TRUE(world.leases("e").empty());
  world.say(World::engine("e"), Ready{5});
  world.advance_ms(2'000);
  const auto leases = world.leases("e");
  ASSERT_EQ(leases.size(), 1u);
  EXPECT_EQ(leases[0].job, "later");
}

TEST(Start, ManyJobsStartTogether) {
  World world;
  world.join_engine("e");
  std::vector<Body> bodies;
  for (int i = 0; i < 2'300; ++i) {
    bodies.push_back(timed_job("j" + std::to_string(i), world.unix_us + 1'000'000));
  }
  world.submit(std::move(bodies));
  world.advance_ms(2'500);
  for (const char* id : {"j0", "j1999", "j2299"}) EXPECT_FALSE(world.job(id).start_us) << id;
}

TEST(Start, AfterTheDeadlineIsRefused) {
  World world;
  world.join_engine("e");
  const auto answers = world.submit({timed_job("a", world.unix_us + 9, world.unix_us + 9)});
  EXPECT_EQ(answers.at(0).error->code, Code::invalid_value);
  EXPECT_NE(answers.at(0).error->message.find("not_before_us"), std::string::npos);
}

TEST(Start, AnotherTimeMakesNoOtherJob) {
  World world;
  world.join_engine("e");
  world.submit({timed_job("a", world.unix_us + 10'000'000)});
  const auto again = world.submit({timed_job("a", world.unix_us + 99'000'000)});
  EXPECT_TRUE(again.at(0).known);
  EXPECT_EQ(world.job("a").start_us, world.unix_us + 10'000'000);
}

TEST(RunAgain, AfterAnErrorOfTheEngineWithNoEntryAndNoBlame) {
  World world;
  world.join_engine("e", 1);
  world.submit({job_body("a")});
  const LeaseId lease = world.leases("e").at(0).lease;
  world.say(World::engine("e"), Ends{{broken_end(lease)}}, 5);
  EXPECT_EQ(world.take<Committed>(World::engine("e")).at(0).committed, std::vector{lease});
  EXPECT_TRUE(world.stream().empty());
  EXPECT_TRUE(world.rings.empty());
  EXPECT_EQ(world.broker().counters().run_again, 1u);
  EXPECT_EQ(world.broker().counters().finished, 0u);
  world.say(World::engine("e"), Ready{1});
  world.advance_ms(1'500);
  EXPECT_TRUE(world.leases("e").empty());
  world.advance_ms(2'000);
  const auto again = world.leases("e");
  ASSERT_EQ(again.size(), 1u);
  EXPECT_EQ(again[0].attempt, 2u);
  EXPECT_FALSE(again[0].alone);
  world.say(World::engine("e"), Ends{{broken_end(again[0].lease)}}, 6);
  EXPECT_EQ(world.result_of("a").error->code, Code::out_of_memory);
  EXPECT_EQ(world.result_of("a").attempts, 2u);
}

}  // namespace
}  // namespace millrace::broker::testing
