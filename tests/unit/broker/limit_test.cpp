// What is too large or too much: each is refused by name, and what came before stays as it was.
#include <gtest/gtest.h>

#include "tests/unit/broker/world.hpp"

namespace millrace::broker::testing {
namespace {

TEST(Limit, AHelloOfManyBytesIsRefused) {
  World world;
  const Peer peer = World::client("c");
  world.feed(Received{peer, Envelope{1, Hello{}}, limits::hello_bytes + 1, ""});
  EXPECT_EQ(world.refusal(peer), Code::too_large);
  EXPECT_TRUE(world.take<Welcome>(peer).empty());
  world.feed(Received{peer, Envelope{1, Hello{}}, limits::hello_bytes, ""});
  EXPECT_EQ(world.take<Welcome>(peer).size(), 1u);
}

TEST(Limit, OfEngines) {
  CoreConfig config;
  config.sessions = 2 * limits::engines;
  World world(config);
  for (std::uint32_t i = 0; i < limits::engines; ++i) world.join_engine("e" + std::to_string(i));
  EXPECT_FALSE(world.refusal(World::engine("e7")));
  world.join_engine("one-more");
  const auto refused = world.take<Refused>(World::engine("one-more"));
  ASSERT_EQ(refused.size(), 1u);
  EXPECT_EQ(refused[0].error.code, Code::overloaded);
  EXPECT_TRUE(refused[0].error.retry_ms) << "there may be room later";
  world.join_engine("e7");  // one that is connected may say hello again
  EXPECT_FALSE(world.refusal(World::engine("e7")));
  world.join_client("c");  // clients have room of their own
  EXPECT_FALSE(world.refusal(World::client("c")));
}

TEST(Limit, APushOfTooManyJobsIsOneRefusalInTheRejectedStream) {
  World world;
  const Peer push{Endpoint::push, {}};
  world.say(push, Submit{std::vector<Body>(limits::jobs_per_submit + 1, job_body("a", "*"))});
  EXPECT_EQ(world.counts().queued, 0u);
  const auto rejected = world.stream("rejected");
  ASSERT_EQ(rejected.size(), 1u);
  EXPECT_EQ(decode_result(rejected[0].body)->error->code, Code::limit_exceeded);
  EXPECT_EQ(world.broker().counters().refused, 1u);
}

// Until it has read its state, a broker keeps what arrives, up to a bound.
TEST(Limit, OfMessagesBeforeTheBrokerHasStarted) {
  World world;
  world.hold_commits = true;
  world.restart();
  const Peer early = World::client("early"), late = World::client("late");
  world.feed(Received{early, Envelope{1, Hello{}}, 64 * limits::MiB, ""});
  world.feed(Received{late, Envelope{1, Hello{}}, 100, ""});
  EXPECT_EQ(world.refusal(late), Code::overloaded);
  EXPECT_FALSE(world.refusal(early));
  world.commit();
  EXPECT_EQ(world.refusal(early), Code::too_large) << "it was kept, and is read now";
  world.feed(Received{late, Envelope{1, Hello{}}, 100, ""});
  EXPECT_EQ(world.take<Welcome>(late).size(), 1u);
}

TEST(Limit, AStreamNeedsAName) {
  World world;
  Job job;
  job.request.prompt = "x";
  job.stream = "";
  // The encoder leaves the default name out, and writes the empty one.
  const auto answers = world.submit({encode_job(job)});
  ASSERT_EQ(answers.size(), 1u);
  ASSERT_TRUE(answers[0].error);
  EXPECT_EQ(answers[0].error->code, Code::invalid_value);
  EXPECT_EQ(world.counts().queued, 0u);
}

// The doorbell repeats the numbers of the streams that were written last.
TEST(Limit, OfStreamsThatTheDoorbellRepeats) {
  constexpr int streams = 1'200;
  World world;
  world.join_engine("e", streams);
  std::vector<Body> bodies;
  for (int i = 0; i < streams; ++i) {
    Job job;
    job.id = "j" + std::to_string(i);
    job.model = "m";
    job.request.prompt = "x";
    job.stream = "s" + std::to_string(i);
    bodies.push_back(encode_job(job));
  }
  world.submit(bodies);
  std::vector<Lease> leases;
  for (auto more = world.leases("e"); !more.empty(); more = world.leases("e")) {
    for (const Lease& lease : more) {
      world.mono_us += 1'000;
      world.say(World::engine("e"), Ends{{completed(lease.lease)}});
    }
    std::ranges::move(more, std::back_inserter(leases));
    world.say(World::engine("e"), Ready{streams});
  }
  ASSERT_EQ(leases.size(), static_cast<std::size_t>(streams));
  EXPECT_EQ(world.rings.size(), static_cast<std::size_t>(streams)) << "each rang once";
  world.rings.clear();
  world.advance_ms(2'000);
  const auto repeated = [&](const std::string& stream) {
    return std::ranges::find(world.rings, stream, &Ring::stream) != world.rings.end();
  };
  EXPECT_FALSE(repeated("s0"));
  EXPECT_TRUE(repeated("s" + std::to_string(streams - 1)));
}

TEST(Retune, ChangesTheLimitsOfARunningBroker) {
  CoreConfig config;
  World world(config);
  config.sessions = 1;
  world.join_client("a");
  world.feed(Retune{config});
  world.say(World::client("b"), Hello{}, 1);
  EXPECT_EQ(world.refusal(World::client("b")), Code::overloaded);
  config.sessions = 2;
  world.feed(Retune{config});
  world.say(World::client("b"), Hello{}, 1);
  EXPECT_EQ(world.take<Welcome>(World::client("b")).size(), 1u);
}

}  // namespace
}  // namespace millrace::broker::testing
