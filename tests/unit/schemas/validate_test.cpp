// The validating visitor: what it refuses, and that it allocates nothing.
#include "schemas/validate.hpp"

#include <gtest/gtest.h>

#include "schemas/codec.hpp"
#include "tests/support/allocations.hpp"
#include "tests/unit/schemas/build.hpp"
#include "tests/unit/schemas/vectors.hpp"

namespace millrace {
namespace {

using namespace build;

Code refusal(const std::string& bytes, const Bounds& bounds = frame_bounds) {
  const Status status = validate(bytes, bounds);
  if (status) {
    ADD_FAILURE() << "was accepted";
    return Code::internal;
  }
  return status.error().code;
}

TEST(Validate, AllocatesNothing) {
  std::string tokens = "\xDD" + big_endian(100'000, 4);
  for (int i = 0; i < 100'000; ++i) tokens += uint(static_cast<std::uint64_t>(i));
  std::string frames = map({{"deep", arr({map({{"x", arr({nil(), real(1.5), bin("\xFF")})}})})},
                            {"tokens", tokens},
                            {"text", str("\xF0\x9F\x98\x80")}});
  const std::size_t before = allocations();
  const bool passed = validate(frames, frame_bounds).has_value();
  EXPECT_EQ(allocations(), before);
  EXPECT_TRUE(passed);
  const auto decoded = decode_job(map({{"prompt", str("longer than any string kept in place")}}));
  EXPECT_GT(allocations(), before);  // the counter works
  EXPECT_TRUE(decoded);
}

TEST(Validate, AcceptsEveryMsgpackForm) {
  using std::string_literals::operator""s;
  for (const std::string& good : {"\x00"s,     "\x7F"s,         "\xFF"s,
                                  "\xC0"s,     "\xC2"s,         "\xCA\x7F\xC0\0\0"s,
                                  "\xD0\x80"s, "\xD1\x80\0"s,   "\xD2\x80\0\0\0"s,
                                  "\xCC\xFF"s, "\xCD\xFF\xFF"s, "\x80"s,
                                  "\x90"s,     "\xA0"s,         "\xD9\0"s,
                                  "\xDA\0\0"s, "\xC4\0"s,       "\xC5\0\0"s,
                                  "\xDC\0\0"s, "\xDE\0\0"s}) {
    EXPECT_TRUE(validate(good, frame_bounds));
  }
}

TEST(Validate, EveryPrefixOfAFrameIsRefused) {
  for (const Envelope& envelope : vectors::envelopes()) {
    const std::string bytes = encode(envelope);
    for (std::size_t cut = 0; cut < bytes.size(); ++cut) {
      ASSERT_EQ(refusal(bytes.substr(0, cut)), Code::malformed_frame);
    }
  }
}

TEST(Validate, Bombs) {
  EXPECT_EQ(refusal("\xDD\xFF\xFF\xFF\xFF"), Code::malformed_frame);
  EXPECT_EQ(refusal("\xDF\xFF\xFF\xFF\xFF"), Code::malformed_frame);
  EXPECT_EQ(refusal(std::string(100'000, '\x91')), Code::limit_exceeded);
  EXPECT_EQ(refusal(std::string("\x81\xA1") + "x" + std::string(100'000, '\x91')),
            Code::limit_exceeded);
  // Each array announces as many items as there are bytes left; only the node limit stops that.
  std::string wide = "\xDD" + big_endian(limits::body_nodes, 4);
  wide += std::string(limits::body_nodes, '\x01');
  EXPECT_EQ(refusal(wide, job_bounds), Code::limit_exceeded);
  EXPECT_TRUE(validate(wide, frame_bounds));
}

TEST(Validate, Sizes) {
  std::string big = bin(std::string(limits::job_bytes, 'x'));
  EXPECT_EQ(refusal(big, job_bounds), Code::too_large);
  EXPECT_TRUE(validate(big, frame_bounds));
  EXPECT_EQ(decode_job(big).error().code, Code::too_large);
}

TEST(Validate, DepthIsCountedForSiblingsToo) {
  std::string nested = uint(1);
  for (std::uint32_t i = 0; i < limits::message_depth; ++i) nested = arr({nested});
  EXPECT_TRUE(validate(nested, frame_bounds));
  EXPECT_EQ(refusal(arr({nested})), Code::limit_exceeded);
  EXPECT_TRUE(validate(arr({uint(1), arr({}), arr({})}), frame_bounds));
}

TEST(Validate, ErrorsSayWhere) {
  const Status status = validate("\x92\x01\xC1", frame_bounds);
  ASSERT_FALSE(status);
  EXPECT_NE(status.error().message.find("offset 2"), std::string::npos) << status.error().text();
}

TEST(Codec, UnknownKeysAreSkippedAndNilIsAbsent) {
  const auto frame =
      map({{"later", arr({map({{"x", nil()}})})},
           {"body", map({{"from", nil()}, {"novel", map({{"a", uint(1)}})}, {"stream", str("s")}})},
           {"kind", str("fetch")},
           {"v", uint(1)},
           {"id", uint(77)}});
  const auto decoded = decode_envelope(frame);
  ASSERT_TRUE(decoded) << decoded.error().text();
  EXPECT_EQ(decoded->id, 77u);
  Fetch expected;
  expected.stream = "s";
  EXPECT_EQ(std::get<Fetch>(decoded->message), expected);
}

TEST(Codec, MissingBodiesAreDefaults) {
  const auto decoded = decode_envelope(map({{"v", uint(1)}, {"kind", str("goodbye")}}));
  ASSERT_TRUE(decoded) << decoded.error().text();
  EXPECT_EQ(std::get<Goodbye>(decoded->message), Goodbye{});
}

TEST(Codec, ErrorsNameThePath) {
  const auto decoded = decode_envelope(
      map({{"v", uint(1)},
           {"kind", str("leases")},
           {"body",
            map({{"leases", arr({map({{"lease", uint(1)}, {"job", str("j")}, {"body", map({})}}),
                                 map({{"lease", sint(-2)}})})}})}}));
  ASSERT_FALSE(decoded);
  EXPECT_EQ(decoded.error().code, Code::invalid_value);
  EXPECT_NE(decoded.error().message.find("leases.leases[1].lease"), std::string::npos)
      << decoded.error().text();
}

TEST(Codec, ListsAreBounded) {
  Cancel cancel;
  cancel.jobs.resize(limits::list_items, "a");
  EXPECT_TRUE(decode_envelope(encode({1, cancel})));
  cancel.jobs.emplace_back("b");
  EXPECT_EQ(decode_envelope(encode({1, cancel})).error().code, Code::limit_exceeded);
}

TEST(Codec, StringsThatTheBrokerKeepsAreBounded) {
  const std::string longest(limits::id_bytes, 'x'), longer(limits::id_bytes + 1, 'x');
  const auto refusal = [](Message message) {
    const auto decoded = decode_envelope(encode({1, std::move(message)}));
    return decoded ? std::nullopt : std::optional(decoded.error().code);
  };
  Hello hello;
  hello.name = hello.software = hello.instance = hello.engine.facts.model = longest;
  EXPECT_EQ(refusal(hello), std::nullopt);
  hello.name = longer;
  EXPECT_EQ(refusal(hello), Code::limit_exceeded);
  hello.name = "bell \a";
  EXPECT_EQ(refusal(hello), Code::invalid_value);
  hello.name = {};
  hello.engine.kv_policies.assign(limits::kv_policies_per_engine + 1, "f16");
  EXPECT_EQ(refusal(hello), Code::limit_exceeded);
  EXPECT_EQ(refusal(Watch{longer, true}), Code::limit_exceeded);
  EXPECT_EQ(refusal(Watch{"", true}), Code::invalid_value);
  EXPECT_EQ(refusal(Acknowledge{"results", "", 1}), Code::invalid_value);
  EXPECT_EQ(refusal(Fetch{.stream = "results", .epoch = {}, .from = 0, .cursor = longer}),
            Code::limit_exceeded);
  EXPECT_EQ(refusal(Retry{{"a", longer}, {}}), Code::limit_exceeded);
}

TEST(Codec, CodesOfALaterVersionKeepTheirName) {
  const auto decoded = decode_envelope(
      map({{"v", uint(1)},
           {"kind", str("refused")},
           {"body", map({{"error", map({{"message", str("m")}, {"code", str("too_sleepy")}})}})}}));
  ASSERT_TRUE(decoded) << decoded.error().text();
  const Error& error = std::get<Refused>(decoded->message).error;
  EXPECT_EQ(error.code, Code::internal);
  EXPECT_EQ(error.message, "too_sleepy: m");
}

TEST(Codec, ABadJobSpoilsNoOther) {
  const std::string good = map({{"prompt", str("a")}});
  const std::vector<std::string> bad = {
      map({{"prompt", "\xA1\xFF"}}),                      // no UTF-8
      map({{"prompt", str("a")}, {"prompt", str("b")}}),  // a key twice
      map({{"prompt", "\xD4\x01\x02"}}),                  // an extension
      "\x81\x01\x02",                                     // a key that is no string
      map({{"x", std::string(100, '\x91') + "\xC0"}}),    // nested too deep
      str("no map"),
      "\xC0"};
  for (const std::string& job : bad) {
    EXPECT_FALSE(decode_job(job));
    const std::string frame = map({{"v", uint(1)},
                                   {"kind", str("submit")},
                                   {"id", uint(5)},
                                   {"body", map({{"jobs", "\x92" + job + good}})}});
    const auto decoded = decode_envelope(frame);
    ASSERT_TRUE(decoded) << decoded.error().text();
    EXPECT_EQ(std::get<Submit>(decoded->message).jobs, (std::vector<std::string>{job, good}));
  }
}

TEST(Codec, OnlyBodiesAreLeftToThoseWhoUseThem) {
  const std::string bad = map({{"prompt", "\xA1\xFF"}});
  const auto code = [](const std::string& kind, const std::string& body) {
    const auto decoded = decode_envelope(
        map({{"v", uint(1)}, {"kind", str(kind)}, {"id", uint(5)}, {"body", body}}));
    return decoded ? "" : std::string(code_name(decoded.error().code));
  };
  EXPECT_EQ(code("submit", map({{"jobs", "\x91" + bad}})), "");
  EXPECT_EQ(code("submit", map({{"jobs", "\x90"}, {"later", bad}})), "invalid_utf8");
  EXPECT_EQ(code("submit", map({{"jobs", "\x90"}, {"later", "\x91" + bad}})), "invalid_utf8");
  EXPECT_EQ(code("ends", map({{"ends", "\x91" + bad}})), "invalid_utf8");
  EXPECT_EQ(code("cancel", map({{"batch", "\xA1\xFF"}})), "invalid_utf8");
  const std::string lease = map({{"lease", uint(1)}, {"job", str("j")}, {"body", bad}});
  EXPECT_EQ(code("leases", map({{"leases", "\x91" + lease}})), "");
}

TEST(Codec, TheIdOfADamagedFrameIsRead) {
  const std::string head = "\x84" + str("v") + uint(1) + str("kind") + str("submit") + str("id");
  EXPECT_EQ(peek_id(head + uint(77) + str("body") + "\x81" + str("jobs") + "\xC1"), 77u);
  EXPECT_EQ(peek_id(head + uint(77)), 77u);  // cut off after it
  EXPECT_EQ(peek_id(head + str("77")), 0u);
  EXPECT_EQ(peek_id(head), 0u);
}

TEST(Codec, TheNamesOfABadJobAreRead) {
  const JobNames names = peek_names(
      map({{"n", uint(0)}, {"id", str("a")}, {"prompt", "\xA1\xFF"}, {"custom_id", str("b")}}));
  EXPECT_EQ(names.id, "a");
  EXPECT_EQ(names.custom_id, "b");
  const JobNames none = peek_names(map({{"id", "\xA1\xFF"}, {"custom_id", str("b \x1B")}}));
  EXPECT_EQ(none.id, "");
  EXPECT_EQ(none.custom_id, "");
  EXPECT_EQ(peek_names("\xC0").id, "");
}

TEST(Codec, PeekIdGivesZeroWhereThereIsNone) {
  EXPECT_EQ(peek_id(map({{"v", uint(9)}, {"id", uint(5)}})), 5u);
  EXPECT_EQ(peek_id(map({{"id", str("x")}})), 0u);
  EXPECT_EQ(peek_id("\xC1"), 0u);
  EXPECT_EQ(peek_id("\x01"), 0u);
}

// Damage anywhere in a frame gives an error or another valid message, never anything worse; and a
// message that decodes can be encoded and decoded again without a change.
TEST(Codec, SurvivesEveryChangedByte) {
  for (const Envelope& envelope : vectors::envelopes()) {
    const std::string bytes = encode(envelope);
    for (std::size_t at = 0; at < bytes.size(); ++at) {
      for (const int change : {0x01, 0x20, 0x80, 0xFF}) {
        std::string damaged = bytes;
        damaged[at] = static_cast<char>(damaged[at] ^ change);
        const auto decoded = decode_envelope(damaged);
        if (!decoded) continue;
        const std::string again = encode(*decoded);
        const auto second = decode_envelope(again);
        ASSERT_TRUE(second) << second.error().text();
        ASSERT_EQ(encode(*second), again);
      }
    }
  }
}

TEST(Codec, JobsAndResultsSurviveEveryChangedByte) {
  for (const auto& [name, job] : vectors::jobs()) {
    const std::string bytes = encode_job(job);
    for (std::size_t at = 0; at < bytes.size(); ++at) {
      for (const int change : {0x01, 0x20, 0x80, 0xFF}) {
        std::string damaged = bytes;
        damaged[at] = static_cast<char>(damaged[at] ^ change);
        const auto decoded = decode_job(damaged);
        if (!decoded) continue;
        const auto second = decode_job(encode_job(decoded->job));
        ASSERT_TRUE(second) << second.error().text();
        ASSERT_EQ(second->job, decoded->job);
        ASSERT_EQ(canonical_hash(damaged).size(), 32u);
      }
    }
  }
  const std::string bytes = encode_result(vectors::completed());
  for (std::size_t at = 0; at < bytes.size(); ++at) {
    std::string damaged = bytes;
    damaged[at] = static_cast<char>(damaged[at] ^ 0xFF);
    const auto decoded = decode_result(damaged);
    if (decoded) {
      ASSERT_TRUE(decode_result(encode_result(*decoded)));
    }
  }
}

}  // namespace
}  // namespace millrace
