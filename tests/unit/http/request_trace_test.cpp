// What the jobs of a request say of its trace.
#include "http/request_trace.hpp"

#include <gtest/gtest.h>

#include "schemas/trace/context.hpp"

namespace millrace::http {
namespace {

class Kept final : public trace::Exporter {
 public:
  explicit Kept(trace::Sampler sampler) : sampler_(sampler) {}
  const trace::Sampler& sampler() const override { return sampler_; }
  void add(trace::Span span) override { spans.push_back(std::move(span)); }
  trace::ExportCounts counts() const override { return {}; }

  std::vector<trace::Span> spans;

 private:
  const trace::Sampler sampler_;
};

// What broker and engine decide on a job of a request without a traceparent is what the face has
// decided.
TEST(RequestTraceTest, AShareOfTheTracesIsDrawnOnce) {
  for (const char* name : {"traceidratio", "parentbased_traceidratio"}) {
    const auto sampler = *trace::Sampler::named(name, "0.5");
    const auto exporter = std::make_shared<Kept>(sampler);
    std::size_t taken = 0;
    for (int i = 0; i < 200; ++i) {
      RequestTrace request(Request{}, exporter);
      request.end(200);
      const auto parent = trace::parse_parent(request.parent());
      ASSERT_TRUE(parent);
      const trace::JobPlace job = trace::place_of_job(parent, "job", i);
      if (sampler.takes(parent, job.trace)) ++taken;
      EXPECT_EQ(taken, exporter->spans.size());
    }
    EXPECT_GT(taken, 0u);
    EXPECT_LT(taken, 200u);
  }
}

TEST(RequestTraceTest, NothingIsSaidWhereNoTraceBegins) {
  EXPECT_EQ(RequestTrace(Request{}, nullptr).parent(), "");
  EXPECT_EQ(RequestTrace(Request{}, std::make_shared<Kept>(trace::Sampler())).parent(), "");
}

}  // namespace
}  // namespace millrace::http
