// The lines of the log that tell of jobs.
#include "engine/worker/logged_executor.hpp"

#include <gtest/gtest.h>

#include "engine/worker/job_end.hpp"
#include "schemas/base/log.hpp"
#include "schemas/codec.hpp"
#include "tests/unit/worker/fake_executor.hpp"

namespace millrace::worker {
namespace {

constexpr const char* trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

class LoggedExecutorTest : public testing::Test {
 protected:
  LoggedExecutorTest() { log_at(LogLevel::debug); }
  ~LoggedExecutorTest() override { set_up_logging({}); }
  void log_at(LogLevel level) {
    set_up_logging({level, true, [this](std::string_view line) { lines_ += line; }});
  }
  bool told(const std::string& text) const { return lines_.find(text) != std::string::npos; }

  std::string lines_;
  FakeExecutor inner_;
  LoggedExecutor logged_{inner_};
};

Task prepared(const std::string& traceparent) {
  Job job;
  job.model = "tiny";
  job.custom_id = "mine";
  job.request.prompt = "hello";
  if (!traceparent.empty()) job.metadata["traceparent"] = traceparent;
  Lease lease;
  lease.lease = 7;
  lease.job = "job-1";
  lease.body = encode_job(job);
  return *prepare(lease, FakeExecutor().info());
}

TEST_F(LoggedExecutorTest, TellsWhenAJobIsTakenUpAndWhenItEnds) {
  logged_.add(prepared(trace));
  EXPECT_TRUE(
      told("\"message\":\"a job is taken up\",\"job\":\"job-1\",\"custom_id\":\"mine\","
           "\"lease\":7,\"traceparent\":\"" +
           std::string(trace) + "\"}"))
      << lines_;
  lines_.clear();
  inner_.end(7);
  EXPECT_EQ(logged_.take_ends().size(), 1u);
  EXPECT_TRUE(told("\"message\":\"a job has ended\",\"job\":\"job-1\"")) << lines_;
  EXPECT_TRUE(told("\"completion_tokens\":")) << lines_;
  EXPECT_TRUE(told(trace)) << lines_;
}

TEST_F(LoggedExecutorTest, TellsTheErrorOfAJobWithoutATrace) {
  logged_.add(prepared(""));
  inner_.end(7, Error{Code::context_exceeded, "too long", {}});
  logged_.take_ends();
  EXPECT_TRUE(told("\"error\":\"context_exceeded\",\"said\":\"too long\"}")) << lines_;
  EXPECT_FALSE(told("traceparent")) << lines_;
}

}  // namespace
}  // namespace millrace::worker
