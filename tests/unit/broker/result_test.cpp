// The published end of a job: the engine's bytes, unchanged, and the job's facts.
#include <gtest/gtest.h>

#include "tests/unit/broker/world.hpp"
#include "tests/unit/schemas/build.hpp"

namespace millrace::broker::testing {
namespace {

using build::arr;
using build::map;
using build::str;
using build::uint;

// A job with metadata and an unknown field.
Body labelled_job() {
  return map({{"id", str("a")},
              {"custom_id", str("line 1")},
              {"prompt", str("say a")},
              {"mood", uint(1)},
              {"metadata", map({{"source", str("test")}})}});
}

void expect_labels(const JobResult& result) {
  EXPECT_EQ(result.job, "a");
  EXPECT_EQ(result.custom_id, "line 1");
  EXPECT_EQ(result.metadata.at("source"), "test");
  ASSERT_EQ(result.warnings.size(), 1u);
  EXPECT_NE(result.warnings[0].find("mood"), std::string::npos);
}

// The broker does not decode a result: readers get these bytes as they are, although no encoder of
// ours would write them so, and one key is unknown.
TEST(PublishedResult, HoldsTheBytesThatTheEngineSent) {
  World world;
  world.join_engine("e", 1);
  world.submit({labelled_job()});
  const LeaseId lease = world.leases("e").at(0).lease;
  const Body odd = map(
      {{"mood", uint(7)}, {"usage", map({{"completion_tokens", uint(3)}})}, {"choices", arr({})}});
  world.say(World::engine("e"), Ends{{{lease, JobState::completed, odd, {}}}});
  EXPECT_NE(world.stream().at(0).body.find(odd), std::string::npos);
  const JobResult result = world.result_of("a");
  EXPECT_EQ(result.state, JobState::completed);
  ASSERT_TRUE(result.result);
  EXPECT_EQ(result.result->usage.completion_tokens, 3u);
  EXPECT_EQ(result.attempts, 1u);
  expect_labels(result);
}

TEST(PublishedResult, OfAnEndByTheLedgerRepeatsTheJobsLabels) {
  World world;
  world.submit({labelled_job()});
  world.ask(CancelJobs{default_tenant, {"a"}, ""});
  const JobResult result = world.result_of("a");
  ASSERT_TRUE(result.error);
  EXPECT_EQ(result.error->code, Code::cancelled);
  expect_labels(result);
}

TEST(PublishedResult, AfterARestartRepeatsTheJobsLabels) {
  World world;
  world.join_engine("e", 1);
  world.submit({labelled_job()});
  const LeaseId lease = world.leases("e").at(0).lease;
  world.restart();
  world.join_engine("e");
  world.say(World::engine("e"), Ends{{completed(lease)}});
  expect_labels(world.result_of("a"));
}

TEST(PublishedResult, OfAFailedJobHoldsTheEnginesError) {
  World world;
  world.join_engine("e", 1);
  world.submit({labelled_job()});
  world.say(World::engine("e"), Ends{{failed_end(world.leases("e").at(0).lease)}});
  const JobResult result = world.result_of("a");
  EXPECT_EQ(result.state, JobState::failed);
  ASSERT_TRUE(result.error);
  EXPECT_EQ(result.error->code, Code::context_exceeded);
  EXPECT_FALSE(result.result);
  expect_labels(result);
}

}  // namespace
}  // namespace millrace::broker::testing
