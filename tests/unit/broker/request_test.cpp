// Requests of clients: fetch, credit, epoch, cursors, cancel in each state, deadlines, status.
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "tests/unit/broker/world.hpp"

namespace millrace::broker::testing {
namespace {

const Peer c = World::client("c");

// Submits `count` jobs and completes them.
void complete(World& world, int count) {
  world.join_engine("e", static_cast<std::uint32_t>(count));
  std::vector<Body> bodies;
  for (int i = 0; i < count; ++i) bodies.push_back(job_body("j" + std::to_string(i)));
  world.submit(bodies);
  Ends ends;
  for (const auto& lease : world.leases("e")) ends.ends.push_back(completed(lease.lease));
  world.say(World::engine("e"), std::move(ends));
}

TEST(Fetch, GivesAtMostWhatItsCreditAllows) {
  World world;
  complete(world, 5);
  Fetch fetch;
  fetch.max_entries = 2;
  world.say(c, fetch, 3);
  auto data = world.take<Data>(c);
  ASSERT_EQ(data.size(), 1u);
  EXPECT_EQ(data[0].entries.size(), 2u);
  EXPECT_EQ(data[0].first, 1u);
  EXPECT_EQ(data[0].high, 5u);
  fetch.from = 3;
  fetch.max_entries = 1000;
  fetch.max_bytes = 1;  // the answer always has at least one entry
  world.say(c, fetch, 4);
  data = world.take<Data>(c);
  ASSERT_EQ(data[0].entries.size(), 1u);
  EXPECT_EQ(data[0].entries[0].number, 3u);
  fetch.from = 6;
  world.say(c, fetch, 5);
  EXPECT_TRUE(world.take<Data>(c).at(0).entries.empty());
}

TEST(Fetch, OfAnotherEpochIsRefused) {
  World world;
  complete(world, 1);
  Fetch fetch;
  fetch.epoch = "of-yesterday";
  world.say(c, fetch, 3);
  EXPECT_EQ(world.refusal(c), Code::epoch_changed);
  world.say(c, Fetch{}, 4);
  fetch.epoch = world.take<Data>(c).at(0).epoch;
  world.say(c, fetch, 5);
  EXPECT_EQ(world.take<Data>(c).at(0).entries.size(), 1u);
}

TEST(Fetch, OfTrimmedNumbersSaysSo) {
  World world;
  complete(world, 5);
  ASSERT_TRUE(world.ask(TrimStream{default_tenant, "results", 4}));
  world.say(c, Fetch{}, 3);
  const auto trimmed = world.take<Trimmed>(c);
  ASSERT_EQ(trimmed.size(), 1u);
  EXPECT_EQ(trimmed[0].first, 4u);
  EXPECT_EQ(trimmed[0].stream, "results");
}

TEST(Fetch, FromZeroGoesOnAfterTheCursor) {
  World world;
  complete(world, 5);
  world.say(c, Acknowledge{"results", "mine", 3}, 3);
  EXPECT_EQ(world.take<Acknowledged>(c).at(0).number, 3u);
  world.say(c, Acknowledge{"results", "mine", 2}, 4);
  EXPECT_EQ(world.take<Acknowledged>(c).at(0).number, 3u);
  world.say(c, Acknowledge{"results", "mine", 99}, 5);
  EXPECT_EQ(world.refusal(c), Code::invalid_value);
  world.restart();
  world.join_client("c");
  Fetch fetch;
  fetch.from = 0;
  fetch.cursor = "mine";
  world.say(c, fetch, 6);
  EXPECT_EQ(world.take<Data>(c).at(0).entries.at(0).number, 4u);
}

TEST(Doorbell, RepeatsTheLastNumber) {
  World world;
  complete(world, 3);
  ASSERT_EQ(world.rings.size(), 1u);
  world.rings.clear();
  world.advance_ms(2'000);
  ASSERT_FALSE(world.rings.empty());
  EXPECT_EQ(world.rings.back().stream, "results");
  EXPECT_EQ(world.rings.back().high, 3u);
}

TEST(Cancel, InTheQueueEndsAtOnce) {
  World world;
  world.join_engine("e");
  world.submit({job_body("a"), job_body("b")});
  world.say(c, Cancel{{"a", "nobody"}, {}}, 3);
  const auto answer = world.take<Cancelled>(c);
  ASSERT_EQ(answer.size(), 1u);
  EXPECT_EQ(answer[0].cancelled, 1u);
  EXPECT_EQ(answer[0].unknown, 1u);
  const auto result = world.result_of("a");
  EXPECT_EQ(result.state, JobState::cancelled);
  EXPECT_EQ(result.error->code, Code::cancelled);
  EXPECT_FALSE(world.rings.empty());
}

TEST(Cancel, OfALeasedJobIsToldToItsEngineAtOnceAndWithEachHeartbeat) {
  World world;
  world.join_engine("e", 1);
  world.submit({job_body("a")});
  const auto lease = world.leases("e").at(0).lease;
  world.say(c, Cancel{{"a"}, {}}, 3);
  EXPECT_EQ(world.take<Cancelled>(c).at(0).requested, 1u);
  EXPECT_EQ(world.take<HeartbeatAnswer>(World::engine("e")).at(0).cancelled,
            std::vector<LeaseId>{lease});
  world.beat("e", {lease}, 1);
  EXPECT_EQ(world.take<HeartbeatAnswer>(World::engine("e")).at(0).cancelled,
            std::vector<LeaseId>{lease});
  EXPECT_EQ(world.job("a").state, JobState::leased);
  world.say(World::engine("e"), Ends{{cancelled_end(lease)}});
  EXPECT_EQ(world.job("a").state, JobState::cancelled);
  world.say(c, Cancel{{"a"}, {}}, 4);
  EXPECT_EQ(world.take<Cancelled>(c).at(0).ended, 1u);
  EXPECT_EQ(world.stream().size(), 1u);
}

TEST(Cancel, OfAJobWhoseEngineThenDiesEndsIt) {
  World world;
  world.join_engine("e", 1);
  world.submit({job_body("a")});
  world.say(c, Cancel{{"a"}, {}}, 3);
  world.feed(EngineDied{"e"});
  EXPECT_EQ(world.job("a").state, JobState::cancelled);
  EXPECT_EQ(world.stream().size(), 1u);
}

TEST(Cancel, OfABatchReachesAllOfItHoweverLarge) {
  World world;
  world.join_engine("e", 3);
  std::vector<Body> bodies;
  for (int i = 0; i < 2'500; ++i) bodies.push_back(job_body("j" + std::to_string(i), "m", "big"));
  bodies.push_back(job_body("other", "m", "small"));
  world.submit(bodies);
  world.say(c, Cancel{{}, "big"}, 3);
  const auto answer = world.take<Cancelled>(c);
  ASSERT_EQ(answer.size(), 1u);
  EXPECT_EQ(answer[0].cancelled + answer[0].requested, 2'500u);
  EXPECT_EQ(world.counts("small").queued, 1u);
}

TEST(Cancel, MustNameJobsOrOneBatch) {
  World world;
  world.join_client("c");
  world.say(c, Cancel{}, 3);
  EXPECT_EQ(world.refusal(c), Code::invalid_value);
  world.say(c, Cancel{{"a"}, "b"}, 3);
  EXPECT_EQ(world.refusal(c), Code::invalid_value);
  world.say(c, Retry{}, 3);
  EXPECT_EQ(world.refusal(c), Code::invalid_value);
}

TEST(Deadline, EndsQueuedAndLeasedJobs) {
  World world;
  world.join_engine("e", 1);
  Job job;
  job.model = "m";
  job.request.prompt = "x";
  job.deadline_us = world.unix_us + 5'000'000;
  for (const char* id : {"leased", "queued"}) {
    job.id = id;
    world.submit({encode_job(job)});
  }
  const auto lease = world.leases("e").at(0).lease;
  world.advance_ms(7'000);
  EXPECT_EQ(world.counts().expired, 2u);
  EXPECT_EQ(world.result_of("leased").error->code, Code::expired);
  EXPECT_EQ(world.take<HeartbeatAnswer>(World::engine("e")).at(0).lost,
            std::vector<LeaseId>{lease});
  world.say(World::engine("e"), Ends{{completed(lease)}});
  EXPECT_EQ(world.take<Committed>(World::engine("e")).at(0).stale.size(), 1u);
  EXPECT_EQ(world.stream().size(), 2u);
}

TEST(StatusRequest, CountsABatchLive) {
  World world;
  world.join_engine("e", 2);
  world.submit({job_body("a", "m", "b1"), job_body("b", "m", "b1"), job_body("d", "m", "b1"),
                job_body("f", "m", "b2")});
  world.say(World::engine("e"), Ends{{completed(world.leases("e").at(0).lease)}});
  StatusRequest request;
  request.batch = "b1";
  world.say(c, request, 3);
  const auto answer = world.take<StatusAnswer>(c);
  ASSERT_EQ(answer.size(), 1u);
  EXPECT_EQ(answer[0].counts, (JobCounts{1, 1, 1, 0, 0, 0}));
  ASSERT_EQ(answer[0].engines.size(), 1u);
  EXPECT_EQ(answer[0].engines[0].leases, 1u);
}

TEST(StatusRequest, TellsEnginesInTheOrderOfTheirNames) {
  World world;
  world.join_client("c");
  // Their connections, by which the broker keeps them, have another order.
  for (const auto& [name, route] : std::map<std::string, std::string>{{"gpu-2", "d"},
                                                                      {"gpu-10", "c"},
                                                                      {"cpu", "e"},
                                                                      {"gpu-1", "b"},
                                                                      {"gpu-02", "a"},
                                                                      {"gpu", "f"}}) {
    world.join_engine(name, 0, "m", route);
  }
  world.say(c, StatusRequest{}, 3);
  const auto answer = world.take<StatusAnswer>(c);
  ASSERT_EQ(answer.size(), 1u);
  std::vector<std::string> names;
  for (const EngineInfo& engine : answer[0].engines) names.push_back(engine.name);
  EXPECT_EQ(names, (std::vector<std::string>{"cpu", "gpu", "gpu-1", "gpu-02", "gpu-2", "gpu-10"}));
}

TEST(StatusRequest, OfAJobAndAStream) {
  World world;
  complete(world, 2);
  StatusRequest request;
  request.job = "j1";
  request.stream = "results";
  world.say(c, request, 3);
  const auto answer = world.take<StatusAnswer>(c);
  ASSERT_EQ(answer.size(), 1u);
  EXPECT_EQ(answer[0].state, JobState::completed);
  EXPECT_EQ(answer[0].job_stream, "results");
  EXPECT_EQ(answer[0].job_number, 2u);
  EXPECT_EQ(answer[0].high, 2u);
  EXPECT_FALSE(answer[0].epoch.empty());
  EXPECT_EQ(answer[0].counts.completed, 2u);
  request.job = "nobody";
  world.say(c, request, 4);
  EXPECT_EQ(world.refusal(c), Code::not_found);
}

TEST(StatusRequest, OfAStreamWithoutResultsIsRefusedToThoseWhoTakeIt) {
  World world;
  world.join_client("c");  // as an earlier client says hello: its `submit --wait` begins with this
  world.say(c, StatusRequest{"", "", "results"}, 3);
  const auto answer = world.take<StatusAnswer>(c);
  ASSERT_EQ(answer.size(), 1u);
  EXPECT_EQ(answer[0].high, 0u);
  EXPECT_EQ(answer[0].first, 1u);
  Hello hello;
  hello.capabilities = {"another", "not_found"};
  world.say(c, hello, 4);
  world.say(c, StatusRequest{"", "", "results"}, 5);
  EXPECT_EQ(world.refusal(c), Code::not_found);
  hello.capabilities.clear();
  world.say(c, hello, 6);
  world.say(c, StatusRequest{"", "", "results"}, 7);
  EXPECT_EQ(world.refusal(c), std::nullopt);
}

TEST(StatusRequest, SaysThatTheBrokerDrains) {
  World world;
  world.join_client("c");
  world.join_engine("e", 1);
  world.submit({job_body("a")});
  world.feed(Drain{});
  world.say(c, StatusRequest{}, 3);
  EXPECT_TRUE(world.take<StatusAnswer>(c).at(0).draining);
}

}  // namespace
}  // namespace millrace::broker::testing
