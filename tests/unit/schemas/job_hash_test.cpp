// The two hashes of a job: of what its body gives, and of what it asks for.
#include <gtest/gtest.h>

#include "schemas/codec.hpp"
#include "tests/unit/schemas/build.hpp"

namespace millrace {
namespace {

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

}  // namespace
}  // namespace millrace
