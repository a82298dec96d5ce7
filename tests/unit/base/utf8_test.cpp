#include "schemas/base/utf8.hpp"

#include <gtest/gtest.h>

#include <utility>
#include <vector>

namespace millrace {
namespace {

TEST(Utf8, EveryCodePointRoundTrips) {
  for (char32_t point = 0; point <= 0x10FFFF; ++point) {
    if (point >= 0xD800 && point <= 0xDFFF) continue;
    std::string text;
    utf8_append(text, point);
    const Utf8Step step = utf8_step(text);
    ASSERT_EQ(step.kind, Utf8Step::Kind::character) << std::hex << std::uint32_t{point};
    ASSERT_EQ(step.code_point, point);
    ASSERT_EQ(step.bytes, text.size());
    ASSERT_TRUE(utf8_valid(text));
    for (std::size_t cut = 1; cut < text.size(); ++cut) {
      ASSERT_EQ(utf8_step(text.substr(0, cut)).kind, Utf8Step::Kind::incomplete);
      ASSERT_FALSE(utf8_valid(text.substr(0, cut)));
    }
  }
}

TEST(Utf8, AppendNeverWritesAnInvalidCharacter) {
  for (const char32_t point : {char32_t{0xD800}, char32_t{0xDFFF}, char32_t{0x110000}}) {
    std::string text;
    utf8_append(text, point);
    EXPECT_EQ(text, "\xEF\xBF\xBD");
  }
}

TEST(Utf8, RefusesInvalidBytes) {
  for (const std::string bad :
       {"\x80", "\xC0\x80", "\xC1\xBF", "\xE0\x80\x80", "\xED\xA0\x80", "\xF0\x80\x80\x80",
        "\xF4\x90\x80\x80", "\xF5\x80\x80\x80", "\xFF", "\xC3(", "\xE2\x82(", "a\xE2\x82"}) {
    EXPECT_FALSE(utf8_valid(bad)) << bad;
  }
  EXPECT_TRUE(utf8_valid(""));
  EXPECT_TRUE(utf8_valid(std::string_view("a\0b", 3)));
}

TEST(Utf8, ValidPrefixEndsBeforeTheFirstDamage) {
  EXPECT_EQ(utf8_valid_prefix("abc"), 3u);
  EXPECT_EQ(utf8_valid_prefix("ab\xC3"), 2u);
  EXPECT_EQ(utf8_valid_prefix("\xE2\x82\xAC\xFFz"), 3u);
}

TEST(Utf8, CompletePrefixHoldsBackOnlyWhatCanStillBecomeACharacter) {
  EXPECT_EQ(utf8_complete_prefix("a\xE2\x82"), 1u);
  EXPECT_EQ(utf8_complete_prefix("a\xF0\x9F\x98"), 1u);
  EXPECT_EQ(utf8_complete_prefix("a\xF0\x9F\x98\x80"), 5u);
  EXPECT_EQ(utf8_complete_prefix("a\x80"), 2u);         // never becomes one
  EXPECT_EQ(utf8_complete_prefix("\xED\xA0"), 2u);      // a surrogate never does either
  EXPECT_EQ(utf8_complete_prefix("\xFF\xFF\xC3"), 2u);  // invalid bytes, then an incomplete one
  EXPECT_EQ(utf8_complete_prefix(""), 0u);
}

// From tables 3-8 and 3-11 of the Unicode standard, and Python's errors="replace".
TEST(Utf8, ReplacesMaximalSubparts) {
  const std::string r = "\xEF\xBF\xBD";
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"\xC0\xAF\xE0\x80\xBF\xF0\x81\x82\x41", r + r + r + r + r + r + r + r + "A"},
      {"\xED\xA0\x80\xED\xBF\xBF\xED\xAF\x41", r + r + r + r + r + r + r + r + "A"},
      {"\xF4\x91\x92\x93\xFF\x41\x80\xBF\x42", r + r + r + r + r + "A" + r + r + "B"},
      {"\xE1\x80\xE2\xF0\x91\x92\xF1\xBF\x41", r + r + r + r + "A"},
      {"ok\xE2\x82", "ok" + r},
  };
  for (const auto& [raw, expected] : cases) EXPECT_EQ(utf8_replace_invalid(raw), expected);
}

}  // namespace
}  // namespace millrace
