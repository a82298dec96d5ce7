// What the expressions of pre-tokenizers may hold, and which match they find.
#include "engine/core/tokenizer/pattern.hpp"

#include <gtest/gtest.h>

#include <string>

namespace millrace::testing {
namespace {

using engine::Pattern;
using engine::Reading;

std::string matched(std::string_view pattern, std::string_view text,
                    Reading reading = Reading::characters) {
  const auto compiled = Pattern::compile(pattern, reading);
  EXPECT_TRUE(compiled) << compiled.error().text();
  return std::string(text.substr(0, compiled->match(text, 0)));
}

TEST(Pattern, TheFirstAlternativeThatMatchesWins) {
  EXPECT_EQ(matched("a|ab|abc", "abc"), "a");
  EXPECT_EQ(matched("ab|a", "abc"), "ab");
  EXPECT_EQ(matched("abd|a", "abc"), "a");
  EXPECT_EQ(matched("(?:a|ab)c", "abc"), "abc");
  EXPECT_EQ(matched("b", "abc"), "");
}

TEST(Pattern, RepetitionsTakeTheMost) {
  EXPECT_EQ(matched("a*ab", "aaab"), "aaab");
  EXPECT_EQ(matched("a{2}", "aaaa"), "aa");
  EXPECT_EQ(matched("a{2,3}", "aaaa"), "aaa");
  EXPECT_EQ(matched("a{2,}", "aaaa"), "aaaa");
  EXPECT_EQ(matched("a{2,}", "ab"), "");
  EXPECT_EQ(matched("(ab){1,2}c?", "ababab"), "abab");
  EXPECT_EQ(matched("(?:ab?)+c", "aabac"), "aabac");
}

TEST(Pattern, SetsHoldRangesClassesAndNestedSets) {
  EXPECT_EQ(matched("[a-c\\-x]+", "ab-xd"), "ab-x");
  EXPECT_EQ(matched("[^a-c]+", "xyz1a"), "xyz1");
  EXPECT_EQ(matched("[\\[-`]+", "[\\]^_`a"), "[\\]^_`");
  EXPECT_EQ(matched("[^(\\s|[.,])]+", "a[b|c"), "a[b");
  EXPECT_EQ(matched("[\\p{L}\\p{M}&&[^\\p{Han}]]+", "ae\u0301漢"), "ae\u0301");
  EXPECT_EQ(matched("[\\p{Lo}&&[^b]-]+", "アb"), "ア");
  EXPECT_EQ(matched("\\p{Lu}\\P{Lu}", "Éé"), "Éé");
  EXPECT_EQ(matched("\\d+", "1٣½"), "1٣");
  EXPECT_EQ(matched("\\s+", " \t\u0085\u00a0\u2003\u200b"), " \t\u0085\u00a0\u2003");
}

TEST(Pattern, IgnoresTheCaseOfAGroup) {
  EXPECT_EQ(matched("(?i:'s|'re)x", "'REx"), "'REx");
  EXPECT_EQ(matched("(?i:'s|'re)x", "'REX"), "");
  EXPECT_EQ(matched("(?i:s)(?i:k)", "ſ\u212a"), "ſ\u212a");
}

TEST(Pattern, LooksAtTheNextCharacter) {
  EXPECT_EQ(matched("\\s+(?!\\S)", "   x"), "  ");
  EXPECT_EQ(matched("\\s+(?!\\S)", "   "), "   ");
  EXPECT_EQ(matched("\\s+(?!\\S)", " x"), "");
  EXPECT_EQ(matched("a+$", "aa"), "aa");
  EXPECT_EQ(matched("a+$", "aa\n"), "aa");
  EXPECT_EQ(matched("a+$", "aab"), "");
}

TEST(Pattern, ReadsDamagedTextAndBytes) {
  EXPECT_EQ(matched("\\p{So}+", "\xff\xe2\x80"), "\xff\xe2\x80");  // each byte as U+FFFD
  EXPECT_EQ(matched("\\p{N}+", "1\xbd\xb2\xc2", Reading::bytes), "1\xbd\xb2");
  EXPECT_EQ(matched("Ġ", " x", Reading::bytes), " ");
}

TEST(Pattern, RefusesWhatItDoesNotKnow) {
  for (const auto* pattern : {"(a", "a)", "[a", "a{", "a{2,1}", "a{2000}", "a++", "a\\", "\\p{Xx}",
                              "\\p{L", "(?=a)", "(?!ab)", "(?i:[a])", "a.", "^a", "*a", "\\b"}) {
    const auto compiled = Pattern::compile(pattern, Reading::characters);
    ASSERT_FALSE(compiled) << pattern;
    EXPECT_EQ(compiled.error().code, Code::internal);
    EXPECT_NE(compiled.error().message.find("pattern, byte"), std::string::npos);
  }
}

}  // namespace
}  // namespace millrace::testing
