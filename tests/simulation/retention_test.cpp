// A broker with a ledger on disk under a steady load, in simulated time: the ledger's file must
// stop growing, and what is kept must be what the limits say.
//
//   MILLRACE_RETENTION_SECONDS=3600 build/tests/broker_retention_test      an hour
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <deque>
#include <filesystem>
#include <memory>

#include "broker/core/broker.hpp"
#include "broker/core/results.hpp"
#include "broker/ledger/sqlite_testing.hpp"
#include "schemas/base/random_id.hpp"
#include "schemas/codec.hpp"

namespace millrace::broker::simulation {
namespace {

constexpr std::int64_t second_us = 1'000'000;
constexpr int jobs_per_second = 1'000;
constexpr std::int64_t keep_s = 15;  // results, jobs and cursors
constexpr int ticks_per_second = 4;

std::uint64_t wanted_seconds() {
  const char* text = std::getenv("MILLRACE_RETENTION_SECONDS");
  return text == nullptr ? 60 : std::strtoull(text, nullptr, 10);
}

class SteadyLoad {
 public:
  explicit SteadyLoad(RetentionPolicy retention)
      : folder_(std::filesystem::temp_directory_path() / ("retention-" + random_id())) {
    std::filesystem::create_directories(folder_);
    SqliteLedgerOptions options;
    options.publish = published_end;
    options.ballast_bytes = 0;
    DurabilitySettings settings;
    settings.synchronous = "OFF";  // no time is measured here
    auto opened = open_weakened_sqlite_ledger(file("ledger"), std::move(options), settings);
    EXPECT_TRUE(opened) << opened.error().text();
    ledger_ = *std::move(opened);
    CoreConfig config;
    config.broker_id = "broker";
    config.retention = retention;
    broker_ = std::make_unique<Broker>(std::move(config));
    feed(Start{});
    Hello engine;
    engine.role = Role::engine;
    engine.name = engine.instance = "engine";
    engine.engine.facts.model = "m";
    say(engine_, std::move(engine));
    say(client_, Hello{});
    GenerationResult result;
    result.choices.emplace_back();
    result.choices[0].text.assign(1'000, 't');
    result_ = encode_generation(result);
  }
  ~SteadyLoad() {
    ledger_.reset();
    std::filesystem::remove_all(folder_);
  }

  void one_second() {
    for (int tick = 0; tick < ticks_per_second; ++tick) {
      now_.mono_us += second_us / ticks_per_second;
      now_.unix_us += second_us / ticks_per_second;
      feed(Tick{});
      Submit submit;
      for (int i = 0; i < jobs_per_second / ticks_per_second; ++i) {
        Job job;
        job.id = "job-" + std::to_string(next_++);
        job.model = "m";
        job.batch = "batch-" + std::to_string(next_ / 10'000);
        job.request.prompt = std::string(300, 'p');
        submit.jobs.push_back(encode_job(job));
      }
      say(client_, std::move(submit));
      say(engine_, Ready{jobs_per_second});
    }
    ended_ += ends_sent_;
    ends_sent_ = 0;
  }
  Result<Reply> ask(const Operation& operation) {
    return std::move(ledger_->apply(std::span(&operation, 1), now_.unix_us)->front());
  }
  // Without the log, whose length depends on how fast checkpoints are beside a load that takes no
  // time: ledger_sqlite_test has its bound.
  std::uint64_t file_bytes() const { return std::filesystem::file_size(file("ledger")); }
  std::uint64_t submitted() const { return next_; }
  std::uint64_t ended() const { return ended_; }
  const CoreCounters& counters() const { return broker_->counters(); }
  void acknowledge(std::uint64_t number) { say(client_, Acknowledge{"results", "slow", number}); }

 private:
  std::string file(const std::string& name) const { return (folder_ / name).string(); }
  void say(const Peer& peer, Message message) {
    feed(Received{peer, {1, std::move(message)}, 0, {}});
  }

  void feed(Event event) {
    absorb(broker_->handle(std::move(event), now_));
    while (!requests_.empty()) {
      const LedgerRequest request = std::move(requests_.front());
      requests_.pop_front();
      auto replies = ledger_->apply(request.operations, now_.unix_us);
      ASSERT_TRUE(replies) << replies.error().text();
      ASSERT_TRUE(ledger_->idle());
      absorb(broker_->handle(Completed{request.ticket, *std::move(replies)}, now_));
    }
    // The engine ends what it was given at once.
    if (std::vector<JobEnd> ends = std::exchange(leased_, {}); !ends.empty()) {
      ends_sent_ += ends.size();
      say(engine_, Ends{std::move(ends)});
    }
  }
  void absorb(Actions actions) {
    for (auto& request : actions.ledger) requests_.push_back(std::move(request));
    for (auto& out : actions.messages) {
      const auto* leases = std::get_if<Leases>(&out.envelope.message);
      if (leases == nullptr) continue;
      for (const Lease& lease : leases->leases) {
        leased_.push_back({lease.lease, JobState::completed, result_, {}});
      }
    }
    for (const Note& note : actions.notes) {
      if (note.level == NoteLevel::error) ADD_FAILURE() << note.text;
    }
  }

  const Peer client_{Endpoint::client, "client"}, engine_{Endpoint::engine, "engine"};
  std::filesystem::path folder_;
  std::unique_ptr<Ledger> ledger_;
  std::unique_ptr<Broker> broker_;
  Now now_{second_us, 1'700'000'000 * second_us};
  Body result_;
  std::deque<LedgerRequest> requests_;
  std::vector<JobEnd> leased_;
  std::uint64_t next_ = 0, ended_ = 0, ends_sent_ = 0;
};

constexpr std::int64_t keep_us = keep_s * second_us;
constexpr std::uint64_t most_kept = (keep_s + 2) * jobs_per_second;  // a pass takes a second
constexpr std::uint64_t least_kept = (keep_s - 1) * jobs_per_second;

// Runs the load, checks that the file stops growing, and returns its stream.
StreamInfo run_steadily(SteadyLoad& load) {
  const auto seconds = wanted_seconds();
  const auto steady = static_cast<std::uint64_t>(2 * keep_s);  // from then on nothing may grow
  EXPECT_GT(seconds, steady);
  std::uint64_t early = 0, most = 0;
  for (std::uint64_t second = 1; second <= seconds && !testing::Test::HasFailure(); ++second) {
    load.one_second();
    most = std::max(most, load.file_bytes());
    if (second == steady) early = most;
  }
  EXPECT_EQ(load.ended(), load.submitted());
  EXPECT_LT(most, early + early / 4) << "the file grows";
  std::printf("%llu jobs: the file had %llu MiB after %llu s and at most %llu MiB\n",
              static_cast<unsigned long long>(load.submitted()),
              static_cast<unsigned long long>(early >> 20), static_cast<unsigned long long>(steady),
              static_cast<unsigned long long>(most >> 20));
  const auto stream = std::get<StreamReply>(*load.ask(GetStream{default_tenant, "results"})).stream;
  EXPECT_EQ(stream.high, load.submitted());
  return stream;
}

// What is kept is what was written in the last seconds.
TEST(Retention, ByAgeTheFileStopsGrowingUnderSteadyLoad) {
  SteadyLoad load({{keep_us, 0, keep_us}, keep_us});
  const StreamInfo stream = run_steadily(load);
  EXPECT_LE(stream.high + 1 - stream.first, most_kept);
  EXPECT_GE(stream.high + 1 - stream.first, least_kept);
  const auto counts = std::get<CountReply>(*load.ask(Count{default_tenant, ""})).counts;
  EXPECT_LE(counts.completed, most_kept);
  EXPECT_GE(counts.completed, least_kept);
  EXPECT_EQ(load.counters().forgotten + counts.completed, load.submitted());
  EXPECT_FALSE(load.ask(GetJob{default_tenant, "job-0"}));
  EXPECT_TRUE(load.ask(GetJob{default_tenant, "job-" + std::to_string(load.submitted() - 1)}));
  EXPECT_EQ(std::get<CountReply>(*load.ask(Count{default_tenant, "batch-0"})).counts, JobCounts{});
}

TEST(Retention, ByBytesItDoesToo) {
  constexpr std::uint64_t keep_bytes = keep_s * jobs_per_second * 1'200;
  SteadyLoad load({{0, keep_bytes, keep_us}, keep_us});
  const StreamInfo stream = run_steadily(load);
  const std::uint64_t kept = stream.high + 1 - stream.first;
  const std::uint64_t bytes_a_second = stream.bytes / kept * jobs_per_second;
  EXPECT_LE(stream.bytes, keep_bytes + 2 * bytes_a_second);
  EXPECT_GE(stream.bytes, keep_bytes - bytes_a_second);
  EXPECT_EQ(load.counters().trimmed + kept, load.submitted());
}

}  // namespace
}  // namespace millrace::broker::simulation
