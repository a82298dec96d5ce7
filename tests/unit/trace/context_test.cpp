// W3C Trace Context as it is read and written, the ids of jobs, and samplers.
#include "schemas/trace/context.hpp"

#include <gtest/gtest.h>

#include "schemas/trace/otlp.hpp"
#include "schemas/trace/sampler.hpp"

namespace millrace::trace {
namespace {

const std::string trace_id = "0af7651916cd43dd8448eb211c80319c", span_id = "b7ad6b7169203331";
const std::string good = "00-" + trace_id + "-" + span_id + "-01";

TEST(ContextTest, IsReadAndWritten) {
  const auto context = parse_parent(good);
  ASSERT_TRUE(context);
  EXPECT_EQ(*context, (Context{trace_id, span_id, true}));
  EXPECT_EQ(parent_text(*context), good);
  EXPECT_FALSE(parse_parent("00-" + trace_id + "-" + span_id + "-00")->sampled);
  EXPECT_TRUE(parse_parent("00-" + trace_id + "-" + span_id + "-03")->sampled);
}

TEST(ContextTest, OfALaterVersionIsReadAsFarAsItIsKnown) {
  EXPECT_TRUE(parse_parent("01" + good.substr(2)));
  EXPECT_TRUE(parse_parent("01" + good.substr(2) + "-more"));
  EXPECT_FALSE(parse_parent("01" + good.substr(2) + "more"));
}

TEST(ContextTest, ThatIsDamagedIsNone) {
  const std::string zeros(32, '0');
  for (const std::string& bad :
       {std::string(), good.substr(1), good + "0", good + "-1", "ff" + good.substr(2),
        "0g" + good.substr(2), "00-" + zeros + "-" + span_id + "-01",
        "00-" + trace_id + "-" + zeros.substr(16) + "-01",
        "00-0AF7651916CD43DD8448EB211C80319C-" + span_id + "-01",
        "00-" + trace_id + "-" + span_id + "-0x", "00_" + good.substr(3)}) {
    EXPECT_FALSE(parse_parent(bad)) << bad;
  }
}

TEST(ContextTest, OfAJobIsInItsMetadata) {
  EXPECT_FALSE(context_of({}));
  EXPECT_FALSE(context_of({{"traceparent", "none"}}));
  EXPECT_FALSE(context_of({{"tracestate", "a=1"}}));
  EXPECT_EQ(context_of({{"traceparent", good}, {"tracestate", "a=1"}})->state, "a=1");
  EXPECT_EQ(context_of({{"traceparent", good}, {"tracestate", std::string(513, 'a')}})->state, "");
  for (const char* bad : {"a=\xff", "a=\xc3\xa9", "a=\t1", "a=\x7f"}) {
    EXPECT_EQ(context_of({{"traceparent", good}, {"tracestate", bad}})->state, "") << bad;
  }
}

TEST(JobPlaceTest, DiffersByParentJobAndTime) {
  const Context parent{trace_id, span_id, true, "a=1"}, other{trace_id, "00f067aa0ba902b7", true};
  const JobPlace place = place_of_job(parent, "job", 5);
  EXPECT_EQ(place.trace, trace_id);
  EXPECT_EQ(place.parent, span_id);
  EXPECT_EQ(place.state, "a=1");
  EXPECT_EQ(place.span.size(), 16u);
  EXPECT_EQ(place_of_job(parent, "job", 5).span, place.span);
  EXPECT_NE(place_of_job(other, "job", 5).span, place.span);
  EXPECT_NE(place_of_job(parent, "job2", 5).span, place.span);
  EXPECT_NE(place_of_job(parent, "job", 6).span, place.span);
}

TEST(JobPlaceTest, OfAJobWithoutAParentIsATraceOfItsOwn) {
  const JobPlace place = place_of_job({}, "job", 5);
  EXPECT_EQ(place.trace.size(), 32u);
  EXPECT_EQ(place.parent, "");
  EXPECT_EQ(place_of_job({}, "job", 5).trace, place.trace);
  EXPECT_EQ(place_of_job({}, "job", 5).span, place.span);
  EXPECT_NE(place_of_job({}, "job", 6).trace, place.trace);
  EXPECT_TRUE(parse_parent(parent_text({place.trace, place.span, true})));
}

TEST(SamplerTest, WithoutANameGoesByTheParentAlone) {
  const Sampler sampler;
  EXPECT_TRUE(sampler.takes(Context{trace_id, span_id, true}, trace_id));
  EXPECT_FALSE(sampler.takes(Context{trace_id, span_id, false}, trace_id));
  EXPECT_FALSE(sampler.takes({}, trace_id));
  EXPECT_FALSE(sampler.takes_roots());
}

TEST(SamplerTest, OfEachNameDoesWhatOpenTelemetrySays) {
  const Context yes{trace_id, span_id, true}, no{trace_id, span_id, false};
  struct Case {
    const char* name;
    bool with_yes, with_no, alone;
  };
  for (const Case& one : {Case{"always_on", true, true, true},
                          {"always_off", false, false, false},
                          {"traceidratio", true, true, true},
                          {"parentbased_always_on", true, false, true},
                          {"parentbased_always_off", true, false, false},
                          {"parentbased_traceidratio", true, false, true}}) {
    const auto sampler = Sampler::named(one.name, "");
    ASSERT_TRUE(sampler) << one.name;
    EXPECT_EQ(sampler->takes(yes, trace_id), one.with_yes) << one.name;
    EXPECT_EQ(sampler->takes(no, trace_id), one.with_no) << one.name;
    EXPECT_EQ(sampler->takes({}, trace_id), one.alone) << one.name;
  }
  EXPECT_FALSE(Sampler::named("nosuch", ""));
  for (const char* bad : {"1.5", "-0.1", "half", "nan", "0.5x"}) {
    EXPECT_FALSE(Sampler::named("traceidratio", bad)) << bad;
  }
}

TEST(SamplerTest, OfAShareComparesTheLastBitsOfTheTrace) {
  const auto half = Sampler::named("traceidratio", "0.5");
  const std::string first(16, 'f');
  EXPECT_TRUE(half->takes({}, first + "0000000000000001"));
  EXPECT_TRUE(half->takes({}, first + "7fffffffffffffff"));
  EXPECT_FALSE(half->takes({}, first + "8000000000000000"));
  EXPECT_FALSE(Sampler::named("traceidratio", "0")->takes({}, first + "0000000000000001"));
}

TEST(OtlpTest, AnAnswerMayRejectSomeSpans) {
  EXPECT_EQ(read_answer("{}").rejected, 0u);
  EXPECT_EQ(read_answer("no JSON").rejected, 0u);
  EXPECT_EQ(read_answer(R"({"partialSuccess": {}})").rejected, 0u);
  EXPECT_EQ(read_answer(R"({"partialSuccess": {"rejectedSpans": "3"}})").rejected, 3u);
  const auto partly =
      read_answer(R"({"partialSuccess": {"rejectedSpans": 2, "errorMessage": "full"}})");
  EXPECT_EQ(partly.rejected, 2u);
  EXPECT_EQ(partly.message, "full");
}

}  // namespace
}  // namespace millrace::trace
