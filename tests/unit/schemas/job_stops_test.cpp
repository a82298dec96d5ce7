// The fields that end a job's text or split it: what is accepted, and what is refused by name.
#include <gtest/gtest.h>

#include "schemas/base/limits.hpp"
#include "schemas/codec.hpp"
#include "tests/unit/schemas/build.hpp"
#include "tests/unit/schemas/job_expectations.hpp"

namespace millrace {
namespace {

using namespace build;

std::string marker(std::string_view part, std::string_view open, std::string_view close = "") {
  return map({{"part", str(part)}, {"open", str(open)}, {"close", str(close)}});
}

std::string detection(std::uint64_t longest, std::uint64_t shortest, std::uint64_t count) {
  return map({{"max_pattern_size", uint(longest)},
              {"min_pattern_size", uint(shortest)},
              {"min_count", uint(count)}});
}

TEST(JobStops, AcceptedForms) {
  const auto request = [](std::string_view key, const std::string& value) {
    return accepted(with(key, value)).job.request;
  };
  const std::string lists = arr({arr({uint(5), uint(6)}), bin(std::string("\7\0\0\0", 4))});
  EXPECT_EQ(request("stop_token_sequences", lists).stops.sequences,
            (std::vector<Tokens>{{5, 6}, {7}}));
  EXPECT_TRUE(request("include_stop_str_in_output", boolean(true)).stops.include);
  EXPECT_EQ(request("markers", str("none")).markers.known, KnownMarkers::none);
  EXPECT_EQ(request("markers", arr({})).markers.known, KnownMarkers::none);
  EXPECT_EQ(request("markers", str("reasoning")).markers.known, KnownMarkers::reasoning);
  EXPECT_EQ(request("markers", str("auto")).markers.known, KnownMarkers::all);
  EXPECT_EQ(request("n", uint(1)).markers, MarkerRequest{});
  EXPECT_EQ(request("max_reasoning_tokens", uint(0)).max_reasoning_tokens, 0u);
  EXPECT_FALSE(request("n", uint(1)).max_reasoning_tokens) << "0 is not the default";
  EXPECT_EQ(request("markers", arr({marker("tool_call", "[T]")})).markers.list,
            (std::vector<Marker>{{MarkedPart::tool_call, "[T]", ""}}));
  EXPECT_EQ(
      request("repetition_detection", map({{"max_pattern_size", uint(8)}})).repetition_detection,
      (RepetitionDetection{8, 1, 2}));
  for (const auto which : {KnownMarkers::none, KnownMarkers::reasoning, KnownMarkers::all}) {
    Job known;
    known.request.prompt = "x";
    known.request.markers.known = which;
    EXPECT_EQ(accepted(encode_job(known)).job, known);
  }
  Job own;
  own.request.prompt = "x";
  own.request.markers.list = {{MarkedPart::channel, "<|channel|>", "<|message|>"},
                              {MarkedPart::reasoning, "<t>", "</t>", true}};
  EXPECT_EQ(accepted(encode_job(own)).job, own);
}

TEST(JobStops, UnknownKeysInsideWarn) {
  const auto warned = [](std::string_view key, const std::string& value) {
    return accepted(with(key, value)).warnings;
  };
  const std::string odd = map({{"part", str("reasoning")}, {"open", str("<t>")}, {"x", uint(1)}});
  ASSERT_EQ(warned("markers", arr({odd})).size(), 1u);
  EXPECT_NE(warned("markers", arr({odd}))[0].find("markers[0].x"), std::string::npos);
  EXPECT_EQ(
      warned("repetition_detection", map({{"max_pattern_size", uint(8)}, {"x", uint(1)}})).size(),
      1u);
}

TEST(JobStops, BadValuesOfSequencesAreRefusedByName) {
  const char* field = "stop_token_sequences";
  EXPECT_REFUSED(with(field, str("x")), invalid_value, field);
  EXPECT_REFUSED(with(field, arr({uint(1)})), invalid_value, "stop_token_sequences[0]");
  EXPECT_REFUSED(with(field, arr({arr({})})), invalid_value, "stop_token_sequences[0] is empty");
  EXPECT_REFUSED(with(field, arr({bin("abc")})), invalid_value, "stop_token_sequences[0]");
  EXPECT_REFUSED(with(field, arr({bin(std::string(4 * 65, '\0'))})), limit_exceeded,
                 "stop_token_sequences[0] has 65 ids, the limit is 64");
  std::string many = "\xDD" + big_endian(limits::stop_sequences + 1, 4);
  for (std::uint32_t i = 0; i <= limits::stop_sequences; ++i) many += arr({uint(1)});
  EXPECT_REFUSED(with(field, many), limit_exceeded, "257 sequences, the limit is 256");
  EXPECT_REFUSED(with("include_stop_str_in_output", uint(1)), invalid_value, "include_stop_str");
}

TEST(JobStops, BadMarkersAreRefusedByName) {
  EXPECT_REFUSED(with("markers", str("all")), invalid_value, "markers: unknown value 'all'");
  EXPECT_REFUSED(with("markers", uint(1)), invalid_value, "markers");
  EXPECT_REFUSED(with("markers", arr({str("x")})), invalid_value, "markers[0]");
  EXPECT_REFUSED(with("markers", arr({marker("song", "<s>")})), invalid_value, "markers[0].part");
  EXPECT_REFUSED(with("markers", arr({map({{"open", str("<s>")}})})), missing_field,
                 "markers[0].part");
  EXPECT_REFUSED(with("markers", arr({map({{"part", str("reasoning")}})})), missing_field,
                 "markers[0].open");
  EXPECT_REFUSED(with("markers", arr({marker("reasoning", "")})), invalid_value,
                 "markers[0].open is empty");
  EXPECT_REFUSED(with("markers", arr({marker("reasoning", std::string(257, 'x'))})), limit_exceeded,
                 "markers[0].open has 257 bytes, the limit is 256");
  EXPECT_REFUSED(with("markers", arr({marker("reasoning", "<t>", std::string(257, 'x'))})),
                 limit_exceeded, "markers[0].close has 257 bytes");
  EXPECT_REFUSED(with("markers", arr({marker("reasoning", "a<t>"), marker("tool_call", "<t>")})),
                 invalid_value, "markers[0].open holds markers[1].open");
  EXPECT_REFUSED(with("markers", arr({marker("channel", "<c>")})), invalid_value,
                 "markers[0].close is empty, but a channel's header must end");
  std::string many = "\xDD" + big_endian(17, 4);
  for (int i = 0; i < 17; ++i) many += marker("reasoning", "<" + std::to_string(i) + ">");
  EXPECT_REFUSED(with("markers", many), limit_exceeded, "17 parts, the limit is 16");
}

TEST(JobStops, BadLimitsOfReasoningAreRefusedByName) {
  EXPECT_REFUSED(with("max_reasoning_tokens", sint(-1)), invalid_value, "max_reasoning_tokens");
  EXPECT_REFUSED(with("max_reasoning_tokens", uint(limits::job_tokens + 1)), limit_exceeded,
                 "max_reasoning_tokens");
}

TEST(JobStops, BadRepetitionDetectionIsRefusedByName) {
  const char* field = "repetition_detection";
  EXPECT_REFUSED(with(field, boolean(true)), invalid_value, field);
  EXPECT_REFUSED(with(field, map({{"max_pattern_size", real(1.5)}})), invalid_value,
                 "repetition_detection.max_pattern_size");
  EXPECT_REFUSED(with(field, map({{"min_count", uint(3)}})), missing_field,
                 "repetition_detection.max_pattern_size is absent");
  EXPECT_REFUSED(with(field, detection(0, 1, 3)), invalid_value, "max_pattern_size is 0");
  EXPECT_REFUSED(with(field, detection(1025, 1, 3)), limit_exceeded, "max_pattern_size is 1025");
  EXPECT_REFUSED(with(field, detection(4, 0, 3)), invalid_value, "min_pattern_size is 0");
  EXPECT_REFUSED(with(field, detection(4, 5, 3)), invalid_value, "min_pattern_size is 5");
  EXPECT_REFUSED(with(field, detection(4, 1, 1)), invalid_value, "min_count is 1");
  EXPECT_REFUSED(with(field, detection(4, 1, 1025)), limit_exceeded, "min_count is 1025");
  const auto refused = decode_job(with(field, detection(4, 1, 1)));
  EXPECT_EQ(refused.error().hint, "give a number from 2 to 1024");
}

TEST(JobStops, AScoreJobAcceptsNoneOfThem) {
  for (const auto& [key, value] : {
           std::pair{"stop_token_sequences", arr({arr({uint(1), uint(2)})})},
           {"markers", str("auto")},
           {"repetition_detection", detection(4, 1, 2)},
       }) {
    EXPECT_REFUSED(map({{"task", str("score")}, {"prompt", str("x")}, {key, value}}), invalid_value,
                   key);
  }
}

// "none" says what is so anyway, and clients send it with every job.
TEST(JobStops, AScoreJobMayRuleMarkersOut) {
  const auto score = [](const std::string& markers) {
    return map({{"task", str("score")}, {"prompt", str("x")}, {"markers", markers}});
  };
  EXPECT_TRUE(decode_job(score(str("none"))));
  EXPECT_TRUE(decode_job(score(arr({}))));
  EXPECT_REFUSED(score(str("reasoning")), invalid_value, "markers has no meaning");
}

}  // namespace
}  // namespace millrace
