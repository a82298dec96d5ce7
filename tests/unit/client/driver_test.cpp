// Tests the driver of `millrace run` against a broker in memory: it submits the lines and writes
// the results to the output.
#include "client/run/driver.hpp"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "client/lines/line_id.hpp"
#include "tests/unit/client/fake_broker.hpp"
#include "tests/unit/client/temporary_folder.hpp"

namespace millrace::client {
namespace {

using nlohmann::json;

class Troubles final : public RunObserver {
 public:
  void progress(const RunProgress&) override {}
  void note(const std::string&, const std::string&) override {}
  void trouble(const std::string& event, const Error&) override { events.push_back(event); }
  std::vector<std::string> events;
};

class DriverTest : public ::testing::Test {
 protected:
  Status go(const std::string& input) {
    const RunPaths paths{{folder_.write("in", input)}, folder_ / "out"};
    auto run = RunFolder::open(*env_, paths, {{"--model", "m"}}, false);
    if (!run) {
      return fail(run.error());
    }
    const auto session = broker_.open_session();
    DriverHooks hooks;
    hooks.tick = [] { return Status(); };
    hooks.engine_silent = [this](const std::string&) {
      if (at_silence_) at_silence_();
    };
    hooks.engine_starts = [] { return 1U; };
    hooks.engine_met = [this] { return engine_met_; };
    hooks.interrupted = [this] { return stop_at_ != 0 && broker_.waits == stop_at_; };
    observer_ = {};
    summary_ = {};
    return drive(*run, *session, clock_, observer_, hooks, {}, summary_);
  }
  std::map<std::uint64_t, json> output() const {
    std::map<std::uint64_t, json> lines;
    std::istringstream text(folder_.read("out"));
    for (std::string line; std::getline(text, line);) {
      json value = json::parse(line);
      const std::uint64_t number = std::stoull(value["id"].get<std::string>());
      EXPECT_TRUE(lines.emplace(number, std::move(value)).second) << "twice: " << number;
    }
    return lines;
  }

  std::unique_ptr<Env> env_ = posix_env();
  TemporaryFolder folder_;
  ManualClock clock_;
  FakeBroker broker_{clock_};
  Troubles observer_;
  std::function<void()> at_silence_;
  bool engine_met_ = false;
  std::uint32_t stop_at_ = 0;  // the wait at which a signal comes; 0: never
  RunSummary summary_;
};

const std::string three_lines = R"({"prompt": "a"})"
                                "\n"
                                R"({"prompt": "b"})"
                                "\n"
                                R"({"prompt": "c"})"
                                "\n";

TEST_F(DriverTest, EachLineHasItsOutputAndAWrongOneItsError) {
  const Status done = go(three_lines + "nonsense\n");
  ASSERT_TRUE(done) << done.error().text();
  const auto lines = output();
  ASSERT_EQ(lines.size(), 4U);
  EXPECT_TRUE(lines.at(1)["error"].is_null());
  EXPECT_EQ(lines.at(4)["error"]["code"], "invalid_json");
  EXPECT_EQ(lines.at(4)["error"]["line"], 4);
  EXPECT_EQ(summary_.progress.done, 4U);
  EXPECT_EQ(summary_.progress.failed, 1U);
}

TEST_F(DriverTest, TheEngineIsReadyOnceItIsMetThoughNoStatusHasNamedIt) {
  ASSERT_TRUE(go(three_lines));
  EXPECT_LT(summary_.progress.ready_seconds, 0);
  engine_met_ = true;
  ASSERT_TRUE(go(three_lines));
  EXPECT_GE(summary_.progress.ready_seconds, 0);
}

TEST_F(DriverTest, AResultThatCannotBeDecodedIsAFailedLineAndTheRunGoesOn) {
  broker_.ends_at_once = false;
  broker_.at_wait = [this] {
    if (broker_.jobs.size() == 3 && broker_.entries.empty()) {
      for (const auto& [id, ended] : broker_.jobs) {
        id.starts_with("2-") ? broker_.publish(id, no_result) : broker_.complete(id);
      }
    }
  };
  ASSERT_TRUE(go(three_lines));
  const auto lines = output();
  ASSERT_EQ(lines.size(), 3U);
  EXPECT_EQ(lines.at(2)["error"]["code"], "engine_failed");
  EXPECT_EQ(lines.at(2)["error"]["line"], 2);
  const auto message = lines.at(2)["error"]["message"].get<std::string>();
  EXPECT_TRUE(message.starts_with("result 2 of stream results cannot be decoded: ")) << message;
  ASSERT_EQ(summary_.failures.size(), 1U);
  EXPECT_EQ(summary_.failures[0].place.line, 2U);
  // The same command again finds nothing left to do.
  ASSERT_TRUE(go(three_lines));
  EXPECT_EQ(output().size(), 3U);
}

TEST_F(DriverTest, InterruptedAtAnyWaitTheSameCommandGoesOn) {
  for (std::uint32_t wait = 1; wait <= 6; ++wait) {
    stop_at_ = broker_.waits + wait;
    const Status status = go(three_lines);
    if (!status) {
      EXPECT_EQ(status.error().code, Code::interrupted);
    }
  }
  stop_at_ = 0;
  ASSERT_TRUE(go(three_lines));
  EXPECT_EQ(output().size(), 3U);
  EXPECT_EQ(broker_.entries.size(), 3U) << "nothing was computed twice";
}

TEST_F(DriverTest, AnotherLedgerInThePlaceOfTheRunsOwnIsRefused) {
  broker_.ends_at_once = false;
  broker_.at_wait = [this] {
    if (broker_.jobs.size() == 3 && broker_.entries.empty()) {
      broker_.complete(broker_.jobs.begin()->first);
      stop_at_ = broker_.waits + 10;
    }
  };
  ASSERT_EQ(go(three_lines).error().code, Code::interrupted);
  ASSERT_EQ(output().size(), 1U);
  stop_at_ = 0;
  broker_.epoch = "of another ledger";
  const Status status = go(three_lines);
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code, Code::epoch_changed);
  EXPECT_NE(status.error().message.find("is not the one that this run wrote to"), std::string::npos)
      << status.error().text();
  EXPECT_EQ(output().size(), 1U) << "nothing of the other ledger is written";
}

TEST_F(DriverTest, AResultThatBelongsToNoLineEndsTheRun) {
  for (const std::string& job : {line_id(4, 7), std::string("not-a-line")}) {
    broker_.entries.clear();
    broker_.complete(job);
    const Status status = go(three_lines);
    ASSERT_FALSE(status);
    EXPECT_EQ(status.error().code, Code::ledger_corrupt);
    EXPECT_NE(status.error().message.find("job " + job), std::string::npos);
    EXPECT_TRUE(output().empty());
  }
}

TEST_F(DriverTest, AFullDiskIsToldOnceAndWaitedForAWhile) {
  broker_.refuses_jobs = Error{Code::disk_full, "no space is left", "free some"};
  const Status status = go(three_lines);
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code, Code::disk_full);
  EXPECT_EQ(observer_.events, std::vector<std::string>{"disk_full"});
  // Whoever makes room and gives the same command loses nothing.
  broker_.refuses_jobs.reset();
  ASSERT_TRUE(go(three_lines));
  EXPECT_EQ(output().size(), 3U);
}

TEST_F(DriverTest, RoomThatComesInTimeLetsTheRunGoOn) {
  broker_.refuses_jobs = Error{Code::disk_full, "no space is left", "free some"};
  const std::int64_t begin_us = clock_.monotonic_us();
  broker_.at_wait = [&] {
    if (clock_.monotonic_us() - begin_us > 5'000'000) broker_.refuses_jobs.reset();
  };
  const Status status = go(three_lines);
  ASSERT_TRUE(status) << status.error().text();
  EXPECT_EQ(output().size(), 3U);
  EXPECT_EQ(observer_.events, std::vector<std::string>{"disk_full"});
}

// A stopped engine process is still there, but the broker has dropped it.
TEST_F(DriverTest, AnEngineThatTheBrokerHasDroppedForLongIsReported) {
  broker_.ends_at_once = false;
  broker_.engines.resize(1);
  std::int64_t gone_us = 0;
  int reports = 0;
  broker_.at_wait = [&] {
    if (broker_.jobs.size() == 3 && gone_us == 0 && clock_.monotonic_us() > 5'000'000) {
      broker_.engines.clear();
      gone_us = clock_.monotonic_us();
    }
  };
  at_silence_ = [&] {
    EXPECT_GT(clock_.monotonic_us() - gone_us, 10'000'000);
    if (++reports == 1) {
      broker_.engines.resize(1);
      for (const auto& [id, ended] : broker_.jobs) broker_.complete(id);
    }
  };
  const Status status = go(three_lines);
  ASSERT_TRUE(status) << status.error().text();
  EXPECT_EQ(reports, 1);
  EXPECT_EQ(output().size(), 3U);
}

TEST_F(DriverTest, AnEngineThatComesBackInTimeIsNotReported) {
  broker_.ends_at_once = false;
  broker_.engines.resize(1);
  at_silence_ = [] { ADD_FAILURE() << "it was away for eight seconds at a time"; };
  const std::int64_t begin_us = clock_.monotonic_us();
  broker_.at_wait = [&] {
    const std::int64_t second = (clock_.monotonic_us() - begin_us) / 1'000'000;
    broker_.engines.resize(second % 10 < 2 ? 1 : 0);
    if (second > 60 && broker_.entries.empty()) {
      for (const auto& [id, ended] : broker_.jobs) broker_.complete(id);
    }
  };
  const Status status = go(three_lines);
  ASSERT_TRUE(status) << status.error().text();
  EXPECT_EQ(output().size(), 3U);
}

}  // namespace
}  // namespace millrace::client
