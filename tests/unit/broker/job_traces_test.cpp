// The spans that a broker makes of what its core tells of jobs.
#include "broker/server/job_traces.hpp"

#include <gtest/gtest.h>

#include "schemas/codec.hpp"

namespace millrace::broker {
namespace {

constexpr const char* parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

class Kept final : public trace::Exporter {
 public:
  const trace::Sampler& sampler() const override { return sampler_; }
  void add(trace::Span span) override { spans.push_back(std::move(span)); }
  trace::ExportCounts counts() const override { return {}; }
  std::vector<trace::Span> spans;

 private:
  trace::Sampler sampler_;
};

class JobTracesTest : public testing::Test {
 protected:
  void tell(JobStep step, const std::string& job, const std::string& engine = {}) {
    traces_.take({step, "acme", job, engine, engine.empty() ? 0u : 1u}, ++now_us_);
  }
  void end(const std::string& job, JobState state, const std::string& traceparent = parent) {
    FinishReply reply;
    reply.number = 3;
    reply.tenant = "acme";
    reply.stream = "results";
    reply.job = job;
    reply.state = state;
    reply.submitted_us = 1;
    reply.attempts = 1;
    if (state == JobState::failed) reply.reason = Code::engine_died;
    if (!traceparent.empty()) reply.labels = encode_labels({{{"traceparent", traceparent}}, {}});
    traces_.take({JobStep::ended, "acme", job, {}, 0, reply}, ++now_us_);
  }
  std::vector<std::string> events(const trace::Span& span) {
    std::vector<std::string> out;
    for (const trace::SpanEvent& one : span.events) out.push_back(one.name);
    return out;
  }

  std::shared_ptr<Kept> exporter_ = std::make_shared<Kept>();
  JobTraces traces_{exporter_};
  std::int64_t now_us_ = 10;
};

using Names = std::vector<std::string>;

TEST_F(JobTracesTest, ASpanHasWhatHappenedToItsJob) {
  tell(JobStep::leased, "a", "first");
  tell(JobStep::leased, "b", "first");
  tell(JobStep::given_back, "a");
  tell(JobStep::leased, "a", "second");
  tell(JobStep::partial, "a");
  end("a", JobState::completed);
  ASSERT_EQ(exporter_->spans.size(), 1u);
  const trace::Span& span = exporter_->spans.front();
  EXPECT_EQ(events(span), (Names{"queued", "leased", "given_back", "leased", "partial"}));
  EXPECT_EQ(span.start_us, 1);
  EXPECT_EQ(span.end_us, now_us_);
  EXPECT_EQ(span.parent, "b7ad6b7169203331");
  EXPECT_FALSE(span.error);
  end("b", JobState::failed);
  EXPECT_EQ(events(exporter_->spans.back()), (Names{"queued", "leased"}));
  EXPECT_EQ(exporter_->spans.back().error, "engine_died");
}

TEST_F(JobTracesTest, AJobWithoutATraceHasNone) {
  tell(JobStep::leased, "a", "first");
  end("a", JobState::completed, "");
  end("b", JobState::completed, "damaged");
  EXPECT_TRUE(exporter_->spans.empty());
}

TEST_F(JobTracesTest, EventsAreBounded) {
  for (std::size_t i = 0; i < JobTraces::events_of_a_job + 5; ++i) tell(JobStep::given_back, "a");
  end("a", JobState::completed);
  const trace::Span& span = exporter_->spans.front();
  EXPECT_EQ(span.events.size(), JobTraces::events_of_a_job + 1);  // and the first, queued
  EXPECT_EQ(span.events_left_out, 5u);
}

TEST_F(JobTracesTest, TheOldestJobsLoseTheirEventsAndKeepTheirSpan) {
  for (std::size_t i = 0; i <= JobTraces::jobs_kept; ++i) {
    tell(JobStep::leased, std::to_string(i), "first");
  }
  end("0", JobState::completed);
  end("1", JobState::completed);
  EXPECT_EQ(events(exporter_->spans[0]), (Names{"queued"}));
  EXPECT_EQ(events(exporter_->spans[1]), (Names{"queued", "leased"}));
}

}  // namespace
}  // namespace millrace::broker
