// New jobs: acknowledgement, ids, idempotence, refusals, limits, the push endpoint.
#include <gtest/gtest.h>

#include "tests/unit/broker/world.hpp"

namespace millrace::broker::testing {
namespace {

TEST(Submit, IsAcknowledgedOnlyAfterTheCommit) {
  World world;
  world.join_engine("e");
  world.join_client("c");
  world.hold_commits = true;
  world.say(World::client("c"), Submit{{job_body("a")}}, 5);
  EXPECT_TRUE(world.take<Submitted>(World::client("c")).empty());
  world.commit();
  const auto answers = world.take<Submitted>(World::client("c"));
  ASSERT_EQ(answers.size(), 1u);
  EXPECT_EQ(answers[0].answers[0].job, "a");
  EXPECT_FALSE(answers[0].answers[0].error);
}

TEST(Submit, AnswersEachJobInOrder) {
  World world;
  world.join_engine("e");
  Job bad;
  bad.id = "bad";
  bad.model = "m";
  bad.request.prompt = "x";
  bad.priority = 99;
  const auto answers = world.submit({job_body("a"), encode_job(bad), "\xc1", job_body("b")});
  ASSERT_EQ(answers.size(), 4u);
  EXPECT_FALSE(answers[0].error);
  ASSERT_TRUE(answers[1].error);
  ASSERT_TRUE(answers[2].error);
  EXPECT_FALSE(answers[3].error);
  EXPECT_EQ(world.counts().queued, 2u);
  EXPECT_EQ(world.broker().counters().refused_jobs, 2u);
}

TEST(Submit, TheSameJobAgainGetsTheStoredAnswer) {
  World world;
  world.join_engine("e", 1);
  EXPECT_FALSE(world.submit({job_body("a")})[0].known);
  auto again = world.submit({job_body("a")});
  EXPECT_TRUE(again[0].known);
  EXPECT_EQ(again[0].state, JobState::leased);
  const auto lease = world.leases("e").at(0).lease;
  world.say(World::engine("e"), Ends{{completed(lease)}});
  again = world.submit({job_body("a")});
  EXPECT_EQ(again[0].state, JobState::completed);
  EXPECT_EQ(world.stream().size(), 1u);
}

TEST(Submit, AnotherBodyUnderAKnownIdIsAConflict) {
  World world;
  world.join_engine("e");
  world.submit({job_body("a")});
  Job other;
  other.id = "a";
  other.model = "m";
  other.request.prompt = "something else";
  const auto answers = world.submit({encode_job(other)});
  ASSERT_TRUE(answers[0].error);
  EXPECT_EQ(answers[0].error->code, Code::conflict);
}

TEST(Submit, AJobWithoutAnIdGetsTheHashOfItsBody) {
  World world;
  world.join_engine("e");
  const auto first = world.submit({job_body("", "m", "b1"), job_body("", "m", "b2")});
  ASSERT_FALSE(first[0].error);
  EXPECT_EQ(first[0].job.size(), 32u);
  EXPECT_NE(first[0].job, first[1].job);
  const auto again = world.submit({job_body("", "m", "b1")});
  EXPECT_TRUE(again[0].known);
  EXPECT_EQ(again[0].job, first[0].job);
}

TEST(Submit, AModelThatNobodyEverServedIsRefused) {
  World world;
  const auto answers = world.submit({job_body("a"), job_body("b", "*")});
  ASSERT_TRUE(answers[0].error);
  EXPECT_EQ(answers[0].error->code, Code::unknown_model);
  EXPECT_FALSE(answers[1].error);
}

TEST(Submit, AModelWhoseEngineLeftIsQueuedEvenAfterARestart) {
  World world;
  world.join_engine("e");
  world.say(World::engine("e"), Goodbye{"done"});
  EXPECT_FALSE(world.submit({job_body("a")})[0].error);
  world.restart();
  world.join_client("c");
  EXPECT_FALSE(world.submit({job_body("b")})[0].error);
  EXPECT_EQ(world.counts().queued, 2u);
}

TEST(Submit, ADeadlineInThePastIsRefusedUnlessTheJobIsStored) {
  World world;
  world.join_engine("e");
  Job job;
  job.id = "a";
  job.model = "m";
  job.request.prompt = "x";
  job.deadline_us = world.unix_us + 10'000'000;
  EXPECT_FALSE(world.submit({encode_job(job)})[0].error);
  world.unix_us += 20'000'000;
  EXPECT_TRUE(world.submit({encode_job(job)})[0].known);
  job.id = "b";
  const auto late = world.submit({encode_job(job)});
  ASSERT_TRUE(late[0].error);
  EXPECT_EQ(late[0].error->code, Code::deadline_passed);
}

TEST(Submit, ReservedStreamsAreRefused) {
  World world;
  Job job;
  job.model = "*";
  job.request.prompt = "x";
  job.stream = "$models";
  EXPECT_EQ(world.submit({encode_job(job)})[0].error->code, Code::invalid_value);
}

TEST(Submit, AnOversizedJobIsRefusedAlone) {
  World world;
  Job job;
  job.model = "*";
  job.request.prompt = std::string(limits::job_bytes + 1, 'x');
  const auto answers = world.submit({encode_job(job), job_body("a", "*")});
  EXPECT_EQ(answers[0].error->code, Code::too_large);
  EXPECT_FALSE(answers[1].error);
}

TEST(Submit, TooManyJobsInOneMessageAreRefusedAsAWhole) {
  World world;
  world.join_client("c");
  world.say(World::client("c"),
            Submit{std::vector<Body>(limits::jobs_per_submit + 1, job_body("a", "*"))}, 3);
  EXPECT_EQ(world.refusal(World::client("c")), Code::limit_exceeded);
  EXPECT_EQ(world.counts().queued, 0u);
}

TEST(Submit, BeyondTheLimitOfPendingJobsTheAnswerIsOverloaded) {
  CoreConfig config;
  config.pending_jobs = 2;
  World world(config);
  world.join_client("c");
  world.hold_commits = true;
  world.say(World::client("c"), Submit{{job_body("a", "*"), job_body("b", "*")}}, 3);
  EXPECT_FALSE(world.broker().accepts_push());
  world.say(World::client("c"), Submit{{job_body("d", "*")}}, 4);
  EXPECT_EQ(world.refusal(World::client("c")), Code::overloaded);
  world.commit();
  EXPECT_TRUE(world.broker().accepts_push());
  world.hold_commits = false;
  world.say(World::client("c"), Submit{{job_body("d", "*")}}, 5);
  EXPECT_EQ(world.take<Submitted>(World::client("c")).size(), 2u);
}

TEST(Submit, OneSessionMayNotHoldTooManyRequests) {
  CoreConfig config;
  config.requests_per_session = 1;
  World world(config);
  world.join_client("c");
  world.hold_commits = true;
  world.say(World::client("c"), StatusRequest{}, 3);
  world.say(World::client("c"), StatusRequest{}, 4);
  EXPECT_EQ(world.refusal(World::client("c")), Code::overloaded);
  world.commit();
  EXPECT_EQ(world.take<StatusAnswer>(World::client("c")).size(), 1u);
}

TEST(Submit, TheBrokersOwnStreamsTakeNoResults) {
  World world;
  std::vector<Body> jobs;
  for (const std::string stream : {"batches", "rejected", "$models", "mine"}) {
    Job job;
    job.id = stream;
    job.model = "*";
    job.stream = stream;
    job.request.prompt = "p";
    jobs.push_back(encode_job(job));
  }
  const auto answers = world.submit(std::move(jobs));
  ASSERT_EQ(answers.size(), 4u);
  for (std::size_t i = 0; i < 3; ++i) EXPECT_EQ(answers[i].error->code, Code::invalid_value) << i;
  EXPECT_FALSE(answers[3].error);
}

TEST(Submit, AFullQueueRefusesEachJob) {
  CoreConfig config;
  config.tenants["*"].queued = 1;
  World world(config);
  const auto answers = world.submit({job_body("a", "*"), job_body("b", "*")});
  EXPECT_FALSE(answers[0].error);
  EXPECT_EQ(answers[1].error->code, Code::overloaded);
}

TEST(Push, StoresJobsAndWritesRefusalsToTheRejectedStream) {
  World world;
  const Peer push{Endpoint::push, {}};
  world.say(push, Submit{{job_body("a", "*"), job_body("b", "nobody"), "\xc1"}});
  EXPECT_EQ(world.counts().queued, 1u);
  const auto rejected = world.stream("rejected");
  ASSERT_EQ(rejected.size(), 2u);
  EXPECT_EQ(rejected[0].job, "b");
  EXPECT_EQ(decode_result(rejected[0].body)->error->code, Code::unknown_model);
  EXPECT_EQ(world.broker().counters().rejected, 2u);
  ASSERT_FALSE(world.rings.empty());
  EXPECT_EQ(world.rings.back().stream, "rejected");
  EXPECT_EQ(world.rings.back().high, 2u);
}

TEST(Push, WithoutRoomJobsWaitAndNoMoreAreRead) {
  CoreConfig config;
  config.tenants["*"].queued = 2;
  World world(config);
  const Peer push{Endpoint::push, {}};
  world.say(push, Submit{{job_body("a", "*"), job_body("b", "*"), job_body("d", "*"),
                          job_body("x", "nobody")}});
  EXPECT_EQ(world.counts().queued, 2u);
  EXPECT_FALSE(world.broker().accepts_push());
  world.advance_ms(3'000);
  EXPECT_FALSE(world.broker().accepts_push());
  EXPECT_TRUE(world.stream("rejected").empty());
  EXPECT_EQ(world.notes_with("there is no room for pushed jobs"), 1) << "not with each try";
  world.join_engine("e", 1);
  world.advance_ms(3'000);
  EXPECT_TRUE(world.broker().accepts_push());
  EXPECT_EQ(world.job("d").state, JobState::queued);
  const auto rejected = world.stream("rejected");
  ASSERT_EQ(rejected.size(), 1u);
  EXPECT_EQ(rejected[0].job, "x");
}

TEST(Push, JobsThatWaitForRoomDoNotHoldUpADrain) {
  CoreConfig config;
  config.tenants[default_tenant].queued = 1;
  World world(config);
  world.say({Endpoint::push, {}}, Submit{{job_body("a", "*"), job_body("b", "*")}});
  world.feed(Drain{});
  world.advance_ms(1'000);
  EXPECT_TRUE(world.broker().stopped());
  const auto rejected = world.stream("rejected");
  ASSERT_EQ(rejected.size(), 1u);
  EXPECT_EQ(decode_result(rejected[0].body)->error->code, Code::overloaded);
}

TEST(Push, ManyRefusalsMakeProducersWait) {
  CoreConfig config;
  config.pending_jobs = 10;
  World world(config);
  world.hold_commits = true;
  for (int i = 0; i < 10; ++i) {
    EXPECT_TRUE(world.broker().accepts_push());
    world.feed(Malformed{{Endpoint::push, {}}, 0, {Code::malformed_frame, "cut short", {}}});
  }
  EXPECT_FALSE(world.broker().accepts_push());
  world.commit();
  EXPECT_TRUE(world.broker().accepts_push());
}

TEST(Push, OtherMessagesAndBrokenFramesAreRejectedToo) {
  World world;
  const Peer push{Endpoint::push, {}};
  world.say(push, StatusRequest{});
  world.feed(Malformed{push, 0, {Code::malformed_frame, "cut short", {}}});
  const auto rejected = world.stream("rejected");
  ASSERT_EQ(rejected.size(), 2u);
  EXPECT_EQ(decode_result(rejected[0].body)->error->code, Code::unexpected_message);
  EXPECT_EQ(decode_result(rejected[1].body)->error->code, Code::malformed_frame);
}

}  // namespace
}  // namespace millrace::broker::testing
