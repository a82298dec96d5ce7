#include "engine/core/tokenizer/pre_tokenizer.hpp"

#include <gtest/gtest.h>

#include <random>
#include <set>
#include <sstream>

namespace millrace::testing {
namespace {

engine::PreTokenizer rules_of(std::string_view name) {
  auto compiled = engine::PreTokenizer::compile(engine::find_pre_tokenizer(name)->rules);
  EXPECT_TRUE(compiled) << compiled.error().text();
  return *std::move(compiled);
}

std::vector<std::string> words(const engine::PreTokenizer& rules, std::string_view text) {
  std::vector<std::size_t> ends;
  rules.split(text, ends);
  std::vector<std::string> result;
  std::size_t begin = 0;
  for (const auto end : ends) {
    result.emplace_back(text.substr(begin, end - begin));
    begin = end;
  }
  EXPECT_EQ(begin, text.size());
  return result;
}

std::vector<std::string> words(std::string_view rule, std::string_view text) {
  return words(rules_of(rule), text);
}

std::vector<std::string> all_names() {
  std::istringstream list(engine::supported_pre_tokenizers());
  std::vector<std::string> names;
  for (std::string name; std::getline(list >> std::ws, name, ',');) names.push_back(name);
  return names;
}

// One name for each set of rules.
std::vector<std::string> distinct_names() {
  std::set<const engine::SplitRule*> seen;
  auto names = all_names();
  std::erase_if(names, [&](const std::string& name) {
    return !seen.insert(engine::find_pre_tokenizer(name)->rules.data()).second;
  });
  EXPECT_GE(names.size(), 22u);
  return names;
}

using Words = std::vector<std::string>;

TEST(PreTokenizer, Gpt2) {
  const auto cut = [](std::string_view text) { return words("gpt-2", text); };
  EXPECT_EQ(cut(""), Words{});
  EXPECT_EQ(cut("Hello world"), (Words{"Hello", " world"}));
  EXPECT_EQ(cut("I'll say it's 'RE"), (Words{"I", "'ll", " say", " it", "'s", " '", "RE"}));
  EXPECT_EQ(cut("a1234 5!?"), (Words{"a", "1234", " 5", "!?"}));
  EXPECT_EQ(cut("a   b"), (Words{"a", "  ", " b"}));
  EXPECT_EQ(cut("a\n\nb  "), (Words{"a", "\n", "\n", "b", "  "}));
  EXPECT_EQ(cut("x\u3000\u3000y"), (Words{"x", "\u3000", "\u3000", "y"}));
  EXPECT_EQ(cut("e\u0301te"), (Words{"e", "\u0301", "te"}));  // a combining mark is not a letter
  EXPECT_EQ(cut("Ⅻ½²"), (Words{"Ⅻ½²"}));                      // letter and other numbers
  EXPECT_EQ(cut("東京です。"), (Words{"東京です", "。"}));
}

TEST(PreTokenizer, SmolLmCutsEveryDigit) {
  const auto cut = [](std::string_view text) { return words("smollm", text); };
  EXPECT_EQ(cut("in 2024"), (Words{"in", " ", "2", "0", "2", "4"}));
  EXPECT_EQ(cut("a   1"), (Words{"a", "   ", "1"}));  // the digit ends the whitespace's stretch
  EXPECT_EQ(cut("٣½x"), (Words{"٣", "½", "x"}));
  EXPECT_EQ(cut("it's 1's"), (Words{"it", "'s", " ", "1", "'s"}));
}

TEST(PreTokenizer, Llama3) {
  const auto cut = [](std::string_view text) { return words("llama-bpe", text); };
  EXPECT_EQ(cut("1234567"), (Words{"123", "456", "7"}));
  EXPECT_EQ(cut("We'Ve a'lL'ſ"), (Words{"We", "'Ve", " a", "'lL", "'ſ"}));
  EXPECT_EQ(cut("(word) \tx"), (Words{"(word", ")", " ", "\tx"}));
  EXPECT_EQ(cut("x !!\n\ny"), (Words{"x", " !!\n\n", "y"}));
  EXPECT_EQ(cut("a \n \n b"), (Words{"a", " \n \n", " b"}));
  EXPECT_EQ(cut("a 5"), (Words{"a", " ", "5"}));
  EXPECT_EQ(cut("\r\nword"), (Words{"\r\n", "word"}));
}

TEST(PreTokenizer, Qwen2CutsEveryDigitAndOtherwiseAsLlama3) {
  const auto cut = [](std::string_view text) { return words("qwen2", text); };
  EXPECT_EQ(cut("in 2024!"), (Words{"in", " ", "2", "0", "2", "4", "!"}));
  EXPECT_EQ(cut("٣½x"), (Words{"٣", "½", "x"}));
  EXPECT_EQ(cut("We'Ve  (word)\r\n \n x"),
            (Words{"We", "'Ve", " ", " (", "word", ")\r\n", " \n", " x"}));
}

TEST(PreTokenizer, FalconCutsNumbersAfterTheBytesAreWritten) {
  const auto cut = [](std::string_view text) { return words("falcon", text); };
  EXPECT_EQ(cut("in 12345?!"), (Words{"in", " ", "123", "45", "?!"}));
  // The alphabet of bytes writes BD, the last byte of ½ and the middle of 彼, as the digit ½.
  EXPECT_EQ(cut("a½"), (Words{"a", "\xc2", "\xbd"}));
  EXPECT_EQ(cut("彼"), (Words{"\xe5", "\xbd\xbc"}));
}

TEST(PreTokenizer, CasedWords) {
  const auto o200k = [](std::string_view text) { return words("gpt-4o", text); };
  EXPECT_EQ(o200k("HTTPServer's camelCase"), (Words{"HTTPServer's", " camel", "Case"}));
  EXPECT_EQ(o200k("ÀÉé 1234 x/\n"), (Words{"ÀÉé", " ", "123", "4", " x", "/\n"}));
  const auto tekken = [](std::string_view text) { return words("tekken", text); };
  EXPECT_EQ(tekken("It's 12"), (Words{"It", "'s", " ", "1", "2"}));
  EXPECT_EQ(words("kimi-k2", "中a 中"), (Words{"中", "a", " ", "中"}));
}

TEST(PreTokenizer, FindsRulesByName) {
  EXPECT_EQ(engine::find_pre_tokenizer("qwen3"), nullptr);
  EXPECT_EQ(engine::find_pre_tokenizer(""), nullptr);
  EXPECT_EQ(engine::find_pre_tokenizer("llama3")->rules.data(),
            engine::find_pre_tokenizer("llama-bpe")->rules.data());
  const auto names = all_names();
  EXPECT_EQ(std::set(names.begin(), names.end()).size(), names.size());
  for (const auto& name : names) EXPECT_NE(engine::find_pre_tokenizer(name), nullptr) << name;
}

// Whatever the bytes, no word is empty and the words joined equal the text.
TEST(PreTokenizer, CutsAnyBytesIntoWords) {
  const std::string_view alphabet = " \n\r\t'slLa1\xc3\xa9\xe2\x80\x83\xf0\x9f\xff\xed\xa0\x80!";
  for (const auto& name : distinct_names()) {
    const auto rules = rules_of(name);
    std::mt19937_64 random(3);
    for (int i = 0; i < 500; ++i) {
      std::string text;
      for (auto left = random() % 24; left > 0; --left)
        text += alphabet[random() % alphabet.size()];
      for (const auto& word : words(rules, text)) ASSERT_FALSE(word.empty());
    }
  }
}

// A rule that looks far ahead from every position takes hours for these.
TEST(PreTokenizer, LongRunsTakeLinearTime) {
  for (const auto& name : distinct_names()) {
    const auto rules = rules_of(name);
    for (const std::string piece : {" ", "\n", " \n", "1", "a", "A", "aA", "漢A", "'", "!", "!\n",
                                    "\xff", "e\u0301", "a ", "<sentinel:1", "IMGIMGA"}) {
      std::string text;
      while (text.size() < (1 << 16)) text += piece;
      for (const auto* last : {"", "x", "漢", "\n"}) {
        std::vector<std::size_t> ends;
        rules.split(text + last, ends);
        EXPECT_EQ(ends.back(), text.size() + std::string_view(last).size());
      }
    }
  }
}

}  // namespace
}  // namespace millrace::testing
