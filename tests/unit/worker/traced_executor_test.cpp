// The spans of an engine's jobs.
#include "engine/worker/traced_executor.hpp"

#include <gtest/gtest.h>

#include "schemas/trace/context.hpp"
#include "tests/unit/worker/fake_executor.hpp"

namespace millrace::worker {
namespace {

constexpr const char* parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

class Kept final : public trace::Exporter {
 public:
  const trace::Sampler& sampler() const override { return sampled; }
  void add(trace::Span span) override { spans.push_back(std::move(span)); }
  trace::ExportCounts counts() const override { return {3, 5, 0}; }

  trace::Sampler sampled;
  std::vector<trace::Span> spans;
};

class TracedExecutorTest : public testing::Test {
 protected:
  void add(LeaseId lease, const std::string& traceparent) {
    Task task;
    task.lease = lease;
    task.job = "job-" + std::to_string(lease);
    task.request.prompt = "hello";
    task.traceparent = traceparent;
    task.submitted_us = 77;
    traced_.add(std::move(task));
  }
  static std::string text(const trace::Span& span, const std::string& name) {
    for (const trace::Attribute& one : span.attributes.list()) {
      if (one.name == name) return std::get<std::string>(one.value);
    }
    return "absent";
  }

  FakeExecutor inner_;
  Kept exporter_;
  ManualClock clock_{5'000'000};
  TracedExecutor traced_{inner_, exporter_, "first", clock_};
};

TEST_F(TracedExecutorTest, AJobWhoseTraceIsRecordedHasASpan) {
  add(7, parent);
  clock_.advance_us(100);
  inner_.end(7);
  EXPECT_EQ(traced_.take_ends().size(), 1u);
  ASSERT_EQ(exporter_.spans.size(), 1u);
  const trace::Span& span = exporter_.spans.front();
  const auto place = trace::place_of_job(trace::parse_parent(parent), "job-7", 77);
  EXPECT_EQ(span.trace, "0af7651916cd43dd8448eb211c80319c");
  EXPECT_EQ(span.parent, place.span);
  EXPECT_EQ(span.name, "text_completion tiny");
  EXPECT_EQ(span.start_us, 5'000'000);
  EXPECT_EQ(span.end_us, 5'000'100);
  EXPECT_EQ(text(span, "millrace.engine"), "first");
  EXPECT_EQ(text(span, "gen_ai.response.id"), "job-7");
  EXPECT_FALSE(span.error);
}

TEST_F(TracedExecutorTest, AnErrorIsTold) {
  add(7, parent);
  inner_.end(7, Error{Code::context_exceeded, "too long", {}});
  traced_.take_ends();
  ASSERT_EQ(exporter_.spans.size(), 1u);
  EXPECT_EQ(exporter_.spans.front().error, "too long");
  EXPECT_EQ(text(exporter_.spans.front(), "error.type"), "context_exceeded");
}

TEST_F(TracedExecutorTest, OtherJobsHaveNone) {
  add(1, "");
  add(2, "damaged");
  add(3, "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00");
  for (const LeaseId lease : {1u, 2u, 3u}) inner_.end(lease);
  EXPECT_EQ(traced_.take_ends().size(), 3u);
  EXPECT_TRUE(exporter_.spans.empty());
  exporter_.sampled = *trace::Sampler::named("parentbased_always_on", "");
  for (const LeaseId lease : {1u, 2u, 3u}) add(lease, lease == 3 ? parent : "");
  for (const LeaseId lease : {1u, 2u, 3u}) inner_.end(lease);
  traced_.take_ends();
  EXPECT_EQ(exporter_.spans.size(), 3u);
}

TEST_F(TracedExecutorTest, AJobThatIsGivenBackAtTheEndHasASpan) {
  {
    TracedExecutor ending{inner_, exporter_, "first", clock_};
    Task task;
    task.lease = 9;
    task.traceparent = parent;
    ending.add(std::move(task));
    clock_.advance_us(100);
    EXPECT_TRUE(exporter_.spans.empty());
  }
  ASSERT_EQ(exporter_.spans.size(), 1u);
  EXPECT_EQ(text(exporter_.spans.front(), "error.type"), "given_back");
  EXPECT_EQ(exporter_.spans.front().end_us, 5'000'100);
}

TEST_F(TracedExecutorTest, TellsWhatBecameOfSpans) {
  EXPECT_EQ(traced_.counts().spans_sent, 3u);
  EXPECT_EQ(traced_.counts().spans_dropped, 5u);
}

}  // namespace
}  // namespace millrace::worker
