#include <gtest/gtest.h>

#include <set>

#include "schemas/base/base64.hpp"
#include "schemas/base/hash.hpp"
#include "schemas/base/number_text.hpp"
#include "schemas/base/random_id.hpp"

namespace millrace {
namespace {

TEST(NumberText, ReadsAsAPersonWouldWriteIt) {
  EXPECT_EQ(number_text(0.1f), "0.1");
  EXPECT_EQ(number_text(-2.0f), "-2");
  EXPECT_EQ(number_text(100000.0f), "100000");
  EXPECT_EQ(number_text(1e30f), "1e30");
  EXPECT_EQ(number_text(1e-20f), "1e-20");
  EXPECT_EQ(number_text(1e39), "1e39");
  EXPECT_EQ(number_text(-0.1), "-0.1");
  EXPECT_EQ(size_text(1023), "1023 bytes");
  EXPECT_EQ(size_text(1024), "1 KiB");
  EXPECT_EQ(size_text(4097), "4097 bytes");
  EXPECT_EQ(size_text(3ull << 29), "1536 MiB");
  EXPECT_EQ(size_text(12'288'196'608), "11.4 GiB");
}

// RFC 4648 section 10.
TEST(Base64, KnownAnswersBothWays) {
  const std::pair<const char*, const char*> cases[] = {{"", ""},
                                                       {"f", "Zg=="},
                                                       {"fo", "Zm8="},
                                                       {"foo", "Zm9v"},
                                                       {"foob", "Zm9vYg=="},
                                                       {"fooba", "Zm9vYmE="},
                                                       {"foobar", "Zm9vYmFy"}};
  for (const auto& [raw, text] : cases) {
    EXPECT_EQ(base64_encode(raw), text);
    EXPECT_EQ(base64_decode(text).value(), raw);
  }
  std::string all;
  for (int i = 0; i < 256; ++i) all.push_back(static_cast<char>(i));
  EXPECT_EQ(base64_decode(base64_encode(all)).value(), all);
}

TEST(Base64, RefusesTextThatIsNotCanonical) {
  for (const char* bad :
       {"Zg=", "Zg", "Z===", "Zh==", "Zm9=", "Zg==Zg==", "Zm9v\n", "Zm-_", "===="}) {
    const auto decoded = base64_decode(bad);
    ASSERT_FALSE(decoded) << bad;
    EXPECT_EQ(decoded.error().code, Code::invalid_value);
  }
}

TEST(Hash, KnownAnswersOfXxh3) {
  // `printf '' | xxh128sum` and `xxhsum -H3` of the reference tool.
  EXPECT_EQ(hash128("").hex(), "99aa06d3014798d86001c324468d497f");
  EXPECT_EQ(hex(hash64("")), "2d06800538d394c2");
  EXPECT_NE(hash64("a", 1), hash64("a", 2));
}

TEST(Hash, PiecesEqualTheWhole) {
  std::string bytes;
  for (int i = 0; i < 5000; ++i) bytes.push_back(static_cast<char>(i * 7));
  Hasher128 hasher;
  hasher.update(std::string_view(bytes).substr(0, 1));
  hasher.update(std::string_view(bytes).substr(1, 2999));
  hasher.update(std::string_view(bytes).substr(3000));
  EXPECT_EQ(hasher.digest(), hash128(bytes));
}

TEST(Hex, WritesTwoDigitsAByte) {
  EXPECT_EQ(hex(std::string_view("\x00\xFFz", 3)), "00ff7a");
  EXPECT_EQ(hex(std::uint64_t{0x0123456789abcdef}), "0123456789abcdef");
}

TEST(RandomId, IsLongAndNew) {
  std::set<std::string> seen;
  for (int i = 0; i < 100; ++i) {
    const std::string id = random_id();
    EXPECT_EQ(id.size(), 32u);
    EXPECT_TRUE(seen.insert(id).second);
  }
}

}  // namespace
}  // namespace millrace
