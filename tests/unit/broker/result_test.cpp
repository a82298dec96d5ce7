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
  static_cast<void>(world.ask(CancelJobs{default_tenant, {"a"}, ""}));
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

TEST(PublishedResult, OfAJobWithDamagedLabelsIsAFailureThatNamesTheDamage) {
  const std::vector<std::pair<std::string, Body>> damages{
      {"no msgpack", "\xC1"},
      {"cut off", map({{"metadata", map({{"source", str("test")}})}}).substr(0, 30)},
      {"of another type", map({{"metadata", str("test")}})}};
  for (const auto& [name, labels] : damages) {
    SCOPED_TRACE(name);
    World world;
    SubmitJob damaged;
    damaged.tenant = default_tenant;
    damaged.id = damaged.hash = "a";
    damaged.body = job_body("a");
    damaged.model = "m";
    damaged.stream = "results";
    damaged.labels = labels;
    ASSERT_TRUE(world.ask(damaged));
    world.advance_ms(1000);  // the broker sees that somebody else has queued a job
    world.join_engine("e", 1);
    const LeaseId lease = world.leases("e").at(0).lease;
    world.say(World::engine("e"), Ends{{completed(lease)}});
    const JobResult result = world.result_of("a");
    EXPECT_EQ(result.state, JobState::failed);
    ASSERT_TRUE(result.error);
    EXPECT_EQ(result.error->code, Code::ledger_corrupt);
    EXPECT_NE(result.error->message.find("ended as completed"), std::string::npos);
    EXPECT_TRUE(result.result) << "the engine's result is not lost";
    EXPECT_EQ(world.counts().failed, 1u);
  }
}

std::string map_of(const std::vector<std::pair<std::string, std::string>>& pairs) {
  std::string out = "\xDF" + build::big_endian(pairs.size(), 4);
  for (const auto& [key, value] : pairs) out += str(key) + value;
  return out;
}

// A job whose ids, metadata and warnings are as large as a job may have them.
Body heavy_job(const std::string& id) {
  constexpr std::size_t key_bytes = 8;
  constexpr std::size_t each = limits::metadata_bytes / limits::metadata_entries;
  std::vector<std::pair<std::string, std::string>> metadata, fields;
  for (std::uint32_t i = 0; i < limits::metadata_entries; ++i) {
    std::string key = std::to_string(i);
    key.resize(key_bytes, '-');
    metadata.emplace_back(std::move(key), str(std::string(each - key_bytes, 'm')));
  }
  fields.emplace_back("id", str(id));
  fields.emplace_back("prompt", str("p"));
  for (const char* name : {"custom_id", "batch"}) {
    fields.emplace_back(name, str(std::string(limits::id_bytes, 'i')));
  }
  fields.emplace_back("metadata", map_of(metadata));
  while (fields.size() < limits::map_keys) {
    const std::string number = std::to_string(fields.size());
    fields.emplace_back(number + std::string(300, 'u'), uint(1));
  }
  return map_of(fields);
}

// An engine's result of so many bytes and msgpack objects.
Body sized_result(std::uint64_t bytes, std::uint64_t nodes) {
  constexpr std::uint64_t nodes_around = 5, bytes_around = 27;
  const std::uint64_t nils = nodes - nodes_around;
  const std::string list =
      "\xDD" + build::big_endian(nils, 4) + std::string(static_cast<std::size_t>(nils), '\xC0');
  const std::string text(static_cast<std::size_t>(bytes - bytes_around - nils), 'y');
  return map({{"x", list}, {"y", str(text)}});
}

TEST(PublishedResult, AsLargeAsAResultMayBeCanBeRead) {
  World world;
  world.join_engine("e", 3);
  world.submit({heavy_job("fits"), heavy_job("byte"), heavy_job("node")});
  const auto leases = world.leases("e");
  ASSERT_EQ(leases.size(), 3u);
  const Body largest = sized_result(limits::result_bytes, limits::body_nodes);
  ASSERT_EQ(largest.size(), limits::result_bytes);
  const Body byte_more = sized_result(limits::result_bytes + 1, limits::body_nodes);
  const Body node_more = sized_result(limits::result_bytes, limits::body_nodes + 1);
  world.say(World::engine("e"), Ends{{{leases[0].lease, JobState::completed, largest, {}},
                                      {leases[1].lease, JobState::completed, byte_more, {}},
                                      {leases[2].lease, JobState::completed, node_more, {}}}});
  std::vector<Entry> entries;
  for (std::uint64_t number = 1; number <= 3; ++number) {  // a read ends after so large an entry
    const ReadStream read{default_tenant, "results", {}, number, {}, 1};
    entries.push_back(std::get<ReadStreamReply>(*world.ask(read)).entries.at(0));
  }
  const auto fits = decode_result(entries[0].body);
  ASSERT_TRUE(fits) << fits.error().text();
  EXPECT_EQ(fits->state, JobState::completed);
  EXPECT_EQ(fits->metadata.size(), limits::metadata_entries);
  EXPECT_EQ(fits->warnings.size(), limits::job_warnings + 1);
  EXPECT_NE(entries[0].body.find(largest), std::string::npos);
  for (std::size_t i = 1; i < 3; ++i) {
    const auto refused = decode_result(entries[i].body);
    ASSERT_TRUE(refused) << refused.error().text();
    ASSERT_TRUE(refused->error);
    EXPECT_EQ(refused->error->code, Code::engine_failed);
  }
}

TEST(PublishedResult, CutsTheTextsOfAnEnginesErrorBetweenCharacters) {
  World world;
  world.join_engine("e", 1);
  world.submit({labelled_job()});
  std::string message = "x";
  while (message.size() < limits::error_text_bytes + 2) message += "\xC3\xA4";
  const Error error{Code::kv_exceeded, message, "read the log"};
  world.say(World::engine("e"),
            Ends{{{world.leases("e").at(0).lease, JobState::failed, {}, error}}});
  const JobResult result = world.result_of("a");
  ASSERT_TRUE(result.error);
  EXPECT_EQ(result.error->code, Code::kv_exceeded);
  const std::string& told = result.error->message;
  const std::string note =
      "... (the broker cut this text of " + std::to_string(message.size()) + " bytes)";
  ASSERT_TRUE(told.ends_with(note)) << told.substr(told.size() - 80);
  EXPECT_EQ(told.substr(0, told.size() - note.size()),
            message.substr(0, limits::error_text_bytes - 1));
  EXPECT_EQ(result.error->hint, "read the log");
}

}  // namespace
}  // namespace millrace::broker::testing
