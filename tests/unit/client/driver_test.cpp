// Tests the driver of `millrace run` against a broker in memory: it submits the lines and writes
// the results to the output.
#include "client/run/driver.hpp"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/unit/client/fake_broker.hpp"
#include "tests/unit/client/temporary_folder.hpp"

namespace millrace::client {
namespace {

using nlohmann::json;

class Silent final : public RunObserver {
 public:
  void progress(const RunProgress&) override {}
  void note(const std::string&, const std::string&) override {}
  void trouble(const std::string&, const Error&) override {}
};

class DriverTest : public ::testing::Test {
 protected:
  Status go(const std::string& input) {
    const RunPaths paths{folder_.write("in", input), folder_ / "out"};
    auto run = RunFolder::open(*env_, paths, {{"--model", "m"}}, false);
    if (!run) {
      return fail(run.error());
    }
    const auto session = broker_.open_session();
    DriverHooks hooks;
    hooks.tick = [] { return Status(); };
    hooks.engine_silent = [] {};
    hooks.engine_starts = [] { return 1U; };
    hooks.interrupted = [this] { return stop_at_ != 0 && broker_.waits == stop_at_; };
    Silent observer;
    summary_ = {};
    return drive(*run, *session, clock_, observer, hooks, {}, summary_);
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
  EXPECT_EQ(summary_.failures[0].line, 2U);
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

}  // namespace
}  // namespace millrace::client
