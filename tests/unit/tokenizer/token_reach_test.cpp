// Tokens cover at least the bytes that TokenReach counts, whatever a tokenizer leaves out.
#include "engine/core/tokenizer/token_reach.hpp"

#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

#include "tests/unit/tokenizer/support.hpp"

namespace millrace::engine {
namespace {

using millrace::testing::load_good;
using millrace::testing::PieceVocabulary;
using millrace::testing::TestVocabulary;

// Texts of a few kinds of characters in runs: letters, white space of several sizes, U+2581,
// control characters, literals, and characters that no vocabulary here holds.
std::string random_text(std::mt19937& random) {
  static const std::vector<std::string> parts{"a",       "ab",     " ",      "\n",         "\t",
                                              "\u2581",  "\u00a0", "\u3000", "\u2003",     "\4",
                                              "<|end|>", "\u4e2d", "\u00e9", "\U0001f600", "x"};
  std::string text;
  const auto upto = [&](std::size_t most) { return random() % most; };
  for (std::size_t runs = 1 + upto(12); runs > 0; --runs) {
    const std::string& part = parts[upto(parts.size())];
    for (std::size_t times = 1 + upto(20); times > 0; --times) text += part;
  }
  return text;
}

void expect_covered(const Tokenizer& tokenizer, const std::string& name) {
  const TokenReach& reach = tokenizer.reach();
  std::mt19937 random(5);
  std::uint64_t some = 0;
  for (int i = 0; i < 3000; ++i) {
    const std::string text = random_text(random);
    for (const bool special : {false, true}) {
      const std::size_t tokens = tokenizer.tokenize(text, {.parse_special = special}).size();
      ASSERT_GE(tokens * reach.longest(), reach.covered(text, 0)) << name << ": " << text;
    }
    some += reach.covered(text, 0);
    if (reach.whole()) {
      EXPECT_EQ(reach.covered(text, 0), text.size());
    }
  }
  EXPECT_GT(some, 10'000u) << name;
}

PieceVocabulary pieces(bool bytes) {
  PieceVocabulary out(bytes);
  for (const char* text : {"a", "x", "\u2581", "\u2581\u2581\u2581\u2581"}) out.add(text, -1);
  out.add("<|end|>", 0, 3);
  return out;
}

TEST(TokenReach, CountsWhatTokensStandFor) {
  TestVocabulary whole;
  whole.merge("a", "b");
  whole.add("<|end|>", 3);
  const Tokenizer full = load_good(whole.builder());
  EXPECT_TRUE(full.reach().whole());
  EXPECT_EQ(full.reach().longest(), 7u);
  expect_covered(full, "all bytes");

  TestVocabulary gaps = whole;
  gaps.tokens[4] = "unused";
  const Tokenizer holes = load_good(gaps.builder());
  EXPECT_FALSE(holes.reach().whole());
  EXPECT_EQ(holes.reach().covered("a\4b", 0), 2u);
  expect_covered(holes, "a byte without a token");

  const Tokenizer spm = load_good(pieces(true).builder());
  EXPECT_TRUE(spm.reach().whole());
  EXPECT_EQ(spm.reach().longest(), 12u) << "four spaces, which a text may write as U+2581";
  expect_covered(spm, "SentencePiece");

  // A run of unknown characters is one token.
  const Tokenizer bare = load_good(pieces(false).builder());
  EXPECT_FALSE(bare.reach().whole());
  EXPECT_EQ(bare.reach().covered("axx\u4e2d\u4e2d?", 0), 3u);
  expect_covered(bare, "no bytes");

  auto file = pieces(true).builder();
  file.string("general.architecture", "phi3");
  const Tokenizer phi3 = load_good(file);
  EXPECT_FALSE(phi3.reach().whole());
  const std::string spaces = "<|end|>" + std::string(10'000, ' ') + "\u3000";
  EXPECT_EQ(phi3.tokenize(spaces, {.parse_special = true}).size(), 1u);
  EXPECT_EQ(phi3.reach().covered(spaces, 0), 7u);
  expect_covered(phi3, "Phi-3");
}

TEST(TokenReach, StopsCountingWhereItIsEnough) {
  const Tokenizer holes = [] {
    TestVocabulary words;
    words.tokens[4] = "unused";
    return load_good(words.builder());
  }();
  const std::string text(100'000, 'a');
  EXPECT_EQ(holes.reach().covered(text, 100'000), 100'000u);
  EXPECT_GT(holes.reach().covered(text, 10), 10u);
  EXPECT_LT(holes.reach().covered(text, 10), 10'000u);
}

}  // namespace
}  // namespace millrace::engine
