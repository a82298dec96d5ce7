#include "engine/core/tokenizer/pre_tokenizer.hpp"

#include <gtest/gtest.h>

#include <random>

namespace millrace::testing {
namespace {

std::vector<std::string> words(std::string_view rule, std::string_view text) {
  std::vector<std::size_t> ends;
  engine::find_pre_tokenizer(rule)->split(text, ends);
  std::vector<std::string> result;
  std::size_t begin = 0;
  for (const auto end : ends) {
    result.emplace_back(text.substr(begin, end - begin));
    begin = end;
  }
  EXPECT_EQ(begin, text.size());
  return result;
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

TEST(PreTokenizer, FindsRulesByName) {
  EXPECT_EQ(engine::find_pre_tokenizer("qwen3"), nullptr);
  EXPECT_EQ(engine::find_pre_tokenizer(""), nullptr);
  EXPECT_EQ(engine::supported_pre_tokenizers(), "gpt-2, smollm, llama-bpe, qwen2");
}

// Whatever the bytes, no word is empty and the words joined equal the text.
TEST(PreTokenizer, CutsAnyBytesIntoWords) {
  std::mt19937_64 random(3);
  const std::string_view alphabet = " \n\r\t'slLa1\xc3\xa9\xe2\x80\x83\xf0\x9f\xff\xed\xa0\x80!";
  for (int i = 0; i < 5000; ++i) {
    std::string text;
    for (auto left = random() % 24; left > 0; --left) text += alphabet[random() % alphabet.size()];
    for (const std::string_view rule : {"gpt-2", "smollm", "llama-bpe", "qwen2"})
      for (const auto& word : words(rule, text)) ASSERT_FALSE(word.empty());
  }
}

}  // namespace
}  // namespace millrace::testing
