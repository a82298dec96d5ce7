// The two hashes of a job: of what its body gives, and of what it asks for.
#include <gtest/gtest.h>

#include "schemas/codec.hpp"
#include "tests/unit/schemas/build.hpp"

namespace millrace {
namespace {

using namespace build;

TEST(CanonicalHash, IgnoresSpellingButNotContent) {
  const auto hash = [](const std::string& body) { return canonical_hash(body); };
  const std::string plain = hash(map({{"prompt", str("x")}, {"n", uint(2)}}));
  EXPECT_EQ(plain.size(), 32u);
  EXPECT_EQ(hash(map({{"n", uint(2)}, {"prompt", str("x")}})), plain);
  EXPECT_EQ(hash("\x82\xA1n\x02\xA6prompt\xA1x"), plain);
  EXPECT_EQ(hash(map({{"n", real(2)}, {"prompt", str("x")}})), plain);
  EXPECT_EQ(hash(map({{"n", uint(2)}, {"prompt", str("x")}, {"stop", nil()}})), plain);
  EXPECT_NE(hash(map({{"n", uint(3)}, {"prompt", str("x")}})), plain);
  EXPECT_NE(hash(map({{"n", uint(2)}, {"prompt", bin("x")}})), plain);
  // Defaults are not filled in: the id of a job with n = 1 differs from that of one without n.
  EXPECT_NE(hash(map({{"prompt", str("x")}, {"n", uint(1)}})), hash(map({{"prompt", str("x")}})));
  // It is stored in ledgers: its value may never change. The number is what Python's
  // xxhash.xxh3_128_hexdigest(msgpack.packb({"prompt": "x"})) gives.
  EXPECT_EQ(hash(map({{"prompt", str("x")}})), "b9b227c97bd7f9ef2de5a3aac6d5a057");
}

TEST(JobHash, IsOfWhatTheJobAsksFor) {
  const auto hash = [](const std::string& body) { return job_hash(decode_job(body)->job); };
  const std::string plain = hash(map({{"prompt", str("x")}}));
  EXPECT_EQ(hash(map({{"n", uint(1)}, {"prompt", str("x")}})), plain);
  EXPECT_EQ(hash(map({{"n", real(1)}, {"prompt", str("x")}, {"stop", nil()}})), plain);
  EXPECT_EQ(hash(map({{"prompt", str("x")}, {"unheard_of", uint(1)}})), plain);
  EXPECT_NE(hash(map({{"n", uint(2)}, {"prompt", str("x")}})), plain);
  EXPECT_EQ(hash(map({{"prompt", str("x")}, {"max_completion_tokens", uint(9)}})),
            hash(map({{"prompt", str("x")}, {"max_tokens", uint(9)}})));
  // Where the model's sampling fills the gaps, a default that is given is no gap.
  const std::string model = hash(map({{"prompt", str("x")}, {"sampling", str("model")}}));
  EXPECT_NE(hash(map({{"prompt", str("x")}, {"sampling", str("model")}, {"top_k", uint(0)}})),
            model);
  // When a job may run makes no other; in version 2 it did.
  const std::string timed = map({{"prompt", str("x")},
                                 {"deadline_us", sint(1'800'000'000'000'000)},
                                 {"not_before_us", sint(1'790'000'000'000'000)}});
  EXPECT_EQ(hash(timed), plain);
  EXPECT_NE(timed_job_hash(decode_job(timed)->job), plain);
  EXPECT_EQ(timed_job_hash(decode_job(map({{"prompt", str("x")}}))->job), plain);
  // Versions 2 and 3 are stored in ledgers: their values may never change. The number is what
  // Python's xxhash.xxh3_128_hexdigest(msgpack.packb({"prompt": "x"})) gives.
  EXPECT_EQ(plain, "b9b227c97bd7f9ef2de5a3aac6d5a057");
}

TEST(DerivedId, IsTheSameForEachTrace) {
  const auto body = [](const std::string& metadata) {
    return map({{"prompt", str("x")}, {"metadata", metadata}});
  };
  const std::string plain = body(map({{"mine", str("1")}}));
  const std::string traced =
      body(map({{"tracestate", str("c")}, {"mine", str("1")}, {"traceparent", str("a")}}));
  EXPECT_EQ(derived_id(plain), canonical_hash(plain));
  EXPECT_EQ(derived_id(traced), derived_id(plain));
  EXPECT_NE(canonical_hash(traced), canonical_hash(plain));
  EXPECT_NE(derived_id(body(map({{"mine", str("2")}}))), derived_id(plain));
  const std::string bare = map({{"prompt", str("x")}});
  EXPECT_EQ(derived_id(body(map({{"traceparent", str("a")}}))), canonical_hash(bare));
  // Only metadata has a trace.
  const std::string named = map({{"prompt", str("x")}, {"traceparent", str("a")}});
  EXPECT_EQ(derived_id(named), canonical_hash(named));
}

TEST(JobHash, TheTraceOfAJobMakesNoOther) {
  const auto job = [](std::map<std::string, std::string> metadata) {
    Job out;
    out.request.prompt = "x";
    out.metadata = std::move(metadata);
    return out;
  };
  const Job first = job({{"traceparent", "a"}, {"mine", "1"}});
  const Job second = job({{"traceparent", "b"}, {"tracestate", "c"}, {"mine", "1"}});
  EXPECT_EQ(job_hash(first), job_hash(second));
  EXPECT_EQ(job_hash(first), job_hash(job({{"mine", "1"}})));
  EXPECT_NE(job_hash(first), job_hash(job({{"mine", "2"}})));
  EXPECT_NE(traced_job_hash(first), traced_job_hash(second));  // version 3
  EXPECT_TRUE(is_traced(first));
  EXPECT_FALSE(is_traced(job({{"mine", "1"}})));
}

}  // namespace
}  // namespace millrace
