// What is no longer kept goes by itself, and clients can see, set, trim and remove streams and
// cursors.
#include <gtest/gtest.h>

#include "broker/core/retention_pace.hpp"
#include "tests/unit/broker/world.hpp"

namespace millrace::broker::testing {
namespace {

const Peer asker = World::client("c");

constexpr std::int64_t second_us = 1'000'000;

CoreConfig keeping(std::int64_t seconds) {
  CoreConfig config;
  config.retention = {{seconds * second_us, 0, seconds * second_us}, seconds * second_us};
  return config;
}

void complete_in_batch(World& world, int count, const std::string& prefix = "j") {
  world.join_engine("e", static_cast<std::uint32_t>(count));
  std::vector<Body> bodies;
  for (int i = 0; i < count; ++i) bodies.push_back(job_body(prefix + std::to_string(i), "m", "b"));
  world.submit(bodies);
  Ends ends;
  for (const auto& lease : world.leases("e")) ends.ends.push_back(completed(lease.lease));
  world.say(World::engine("e"), std::move(ends));
}

template <class Answer>
Answer answer_to(World& world, Message message) {
  world.say(asker, std::move(message), 8);
  auto answers = world.take<Answer>(asker);
  EXPECT_EQ(answers.size(), 1u);
  return answers.empty() ? Answer{} : std::move(answers.front());
}

TEST(Retention, OldResultsJobsAndBatchesGoByThemselves) {
  World world(keeping(3'600));
  complete_in_batch(world, 100);
  world.advance_ms(3'000);
  EXPECT_EQ(world.stream().size(), 100u);
  EXPECT_EQ(world.counts("b").completed, 100u);
  world.unix_us += 3'600 * second_us;
  world.advance_ms(2'000);
  world.say(asker, Fetch{}, 3);
  EXPECT_EQ(world.take<Trimmed>(asker).at(0).first, 101u);
  EXPECT_EQ(world.counts("b"), JobCounts{});
  EXPECT_FALSE(world.ask(GetJob{default_tenant, "j0"}));
  EXPECT_EQ(world.broker().counters().trimmed, 100u);
  EXPECT_EQ(world.notes_with("results are deleted that are no longer kept"), 1);
  EXPECT_EQ(world.broker().counters().forgotten, 100u);
  EXPECT_FALSE(world.submit({job_body("j0", "m", "b")}).at(0).known);
}

TEST(Retention, TheNamesOfModelsOutliveEveryAge) {
  World world(keeping(60));
  complete_in_batch(world, 1);
  world.unix_us += 1'000 * second_us;
  world.advance_ms(3'000);
  world.restart();
  world.join_client("c");
  world.say(asker, Submit{{job_body("later")}}, 4);
  EXPECT_FALSE(world.take<Submitted>(asker).at(0).answers.at(0).error);
}

TEST(Retention, APassBeginsOnlyWhenTheOneBeforeHasEnded) {
  World world(keeping(60));
  world.advance_ms(2'000);
  world.hold_commits = true;
  world.advance_ms(10'000);
  int passes = 0;
  world.hold_commits = false;
  const auto before = world.now();
  while (world.commit_one()) ++passes;
  EXPECT_GT(passes, 0);
  EXPECT_LT(passes, 30) << "one pass, and the sweeps of deadlines and leases";
  EXPECT_EQ(world.now().mono_us, before.mono_us);
}

TEST(Retention, StepsGrowWhereAPassTakesTooLongAndShrinkAgain) {
  RetentionPace pace(second_us);
  std::int64_t now_us = 0;
  pace.pass_begins(now_us);
  EXPECT_EQ(pace.rows(), limits::retention_rows);
  for (int second = 0; second < 20; ++second) pace.pass_goes_on(now_us += second_us);
  EXPECT_EQ(pace.rows(), limits::retention_rows_most);
  for (int pass = 0; pass < 20; ++pass) {
    pace.pass_begins(now_us);
    pace.pass_ends(now_us += second_us / 4);
  }
  EXPECT_EQ(pace.rows(), limits::retention_rows);
}

TEST(Retention, APassThatFindsLittleIsFollowedByALongPause) {
  RetentionPace pace(second_us);
  pace.pass_begins(0);
  for (int step = 0; step < 3; ++step) pace.step_ends(1);
  pace.pass_ends(3 * second_us);
  EXPECT_EQ(pace.next_us(), second_us) << "it deleted something with each step";
  pace.pass_begins(3 * second_us);
  for (int step = 0; step < 3; ++step) pace.step_ends(0);
  pace.pass_ends(5 * second_us);
  EXPECT_EQ(pace.next_us(), (5 + 9 * 2) * second_us);
  pace.pass_begins(23 * second_us);
  pace.step_ends(0);
  pace.pass_ends(23 * second_us + 10);
  EXPECT_EQ(pace.next_us(), 24 * second_us);
}

TEST(Retention, ADrainBeginsNoFurtherStep) {
  World world(keeping(60));
  complete_in_batch(world, 100);
  world.unix_us += 1'000 * second_us;
  world.hold_commits = true;
  world.advance_ms(1'250);
  world.feed(Drain{false, true});
  world.commit();
  EXPECT_TRUE(world.broker().stopped() || !world.commit_one());
  EXPECT_LE(world.broker().counters().trimmed, limits::retention_rows);
}

TEST(Streams, AreListedWithWhatTheyKeep) {
  World world(keeping(3'600));
  complete_in_batch(world, 3);
  answer_to<Acknowledged>(world, Acknowledge{"results", "loader", 2});
  auto answer = answer_to<StreamsAnswer>(world, StreamsRequest{});
  ASSERT_EQ(answer.streams.size(), 1u) << "the broker's own are not listed";
  EXPECT_FALSE(answer.more);
  const StreamState& stream = answer.streams[0];
  EXPECT_EQ(stream.stream, "results");
  EXPECT_EQ(stream.first, 1u);
  EXPECT_EQ(stream.high, 3u);
  EXPECT_GT(stream.bytes, 0u);
  EXPECT_EQ(stream.cursors, 1u);
  EXPECT_EQ(stream.set, KeepLimits{});
  EXPECT_EQ(stream.applied, (KeepLimits{3'600, 0, 3'600}));
  EXPECT_EQ(answer_to<StreamsAnswer>(world, StreamsRequest{"results", ""}).streams, answer.streams);
  EXPECT_TRUE(answer_to<StreamsAnswer>(world, StreamsRequest{"", "results"}).streams.empty());
  const auto cursors = answer_to<CursorsAnswer>(world, CursorsRequest{"results"}).cursors;
  ASSERT_EQ(cursors.size(), 1u);
  EXPECT_EQ(cursors[0].cursor, "loader");
  EXPECT_EQ(cursors[0].number, 2u);
  EXPECT_EQ(cursors[0].moved_us, world.unix_us);
  world.say(asker, StreamsRequest{"none", ""}, 4);
  EXPECT_EQ(world.refusal(asker), Code::not_found);
  world.say(asker, CursorsRequest{"none"}, 4);
  EXPECT_EQ(world.refusal(asker), Code::not_found);
}

TEST(Streams, KeepTheirOwnLimits) {
  World world(keeping(3'600));
  world.join_client("c");
  auto kept = answer_to<StreamChanged>(world, Keep{"results", {60, {}, 0}}).stream;
  EXPECT_EQ(kept.set, (KeepLimits{60, {}, 0}));
  EXPECT_EQ(kept.applied, (KeepLimits{60, 0, 0}));
  complete_in_batch(world, 5);
  world.unix_us += 61 * second_us;
  world.advance_ms(2'000);
  EXPECT_EQ(world.counts().completed, 5u) << "jobs have the broker's age";
  EXPECT_EQ(answer_to<StreamsAnswer>(world, StreamsRequest{"results", ""}).streams[0].bytes, 0u);
  kept = answer_to<StreamChanged>(world, Keep{"results", {}}).stream;
  EXPECT_EQ(kept.applied, (KeepLimits{3'600, 0, 3'600}));
}

TEST(Streams, AreTrimmedAndRemoved) {
  World world;
  complete_in_batch(world, 5);
  EXPECT_EQ(answer_to<StreamChanged>(world, Trim{"results", 4}).stream.first, 4u);
  world.say(asker, Fetch{}, 3);
  EXPECT_EQ(world.take<Trimmed>(asker).at(0).first, 4u) << "at once";
  world.say(asker, Trim{"results", 7}, 3);
  EXPECT_EQ(world.refusal(asker), Code::invalid_value);
  world.advance_ms(2'000);
  EXPECT_EQ(world.broker().counters().trimmed, 3u) << "without any limit";
  answer_to<Acknowledged>(world, Acknowledge{"results", "loader", 5});
  EXPECT_EQ(answer_to<StreamChanged>(world, Remove{"results", "loader"}).stream.cursors, 0u);
  world.say(asker, Remove{"results", "loader"}, 3);
  EXPECT_EQ(world.refusal(asker), Code::not_found);
  EXPECT_EQ(answer_to<StreamChanged>(world, Remove{"results", ""}).stream.first, 6u);
  EXPECT_TRUE(answer_to<StreamsAnswer>(world, StreamsRequest{}).streams.empty());
  complete_in_batch(world, 1, "next");
  EXPECT_EQ(answer_to<StreamsAnswer>(world, StreamsRequest{}).streams.at(0).high, 6u);
}

}  // namespace
}  // namespace millrace::broker::testing
