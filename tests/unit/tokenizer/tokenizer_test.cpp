#include "engine/core/tokenizer/tokenizer.hpp"

#include <algorithm>
#include <random>
#include <thread>

#include "tests/unit/tokenizer/support.hpp"

namespace millrace::testing {
namespace {

struct Words {
  TestVocabulary test;
  TokenId th = test.merge("t", "h"), the = test.merge("th", "e"),
          space_the = test.merge(" ", "the");
  TokenId start = test.add("<|start|>", 3), start_long = test.add("<|start|>>", 3);
  TokenId user = test.add("<user>", 4), unknown = test.add("<unk>", 2);
  TokenId unused = test.add("<unused>", 5);
};

TEST(Tokenizer, AppliesMergesAndKeepsBytes) {
  const Words words;
  const auto tokenizer = load_good(words.test.builder());
  EXPECT_EQ(tokenizer.tokenize("the the", {}), (Tokens{words.the, words.space_the}));
  EXPECT_EQ(tokenizer.tokenize("thx", {}), (Tokens{words.th, 'x'}));
  EXPECT_EQ(tokenizer.tokenize("", {}), Tokens{});
  EXPECT_EQ(tokenizer.tokenize(std::string_view("\0\xff", 2), {}), (Tokens{0, 255}));
  EXPECT_EQ(tokenizer.vocabulary_size(), words.test.tokens.size());
  EXPECT_EQ(tokenizer.token_bytes(words.space_the), " the");
}

TEST(Tokenizer, AWordInTheVocabularyMayStillBeSeveralTokens) {
  TestVocabulary test;
  const auto whole = test.add("xyz");  // no merge gives it
  EXPECT_EQ(load_good(test.builder()).tokenize("xyz xyz", {}),
            (Tokens{'x', 'y', 'z', ' ', 'x', 'y', 'z'}));
  test.pre = "llama-bpe";  // with this pre-tokenizer a whole word wins
  EXPECT_EQ(load_good(test.builder()).tokenize("xyz", {}), Tokens{whole});
}

TEST(Tokenizer, FindsSpecialTokensOnRequest) {
  const Words words;
  const auto tokenizer = load_good(words.test.builder());
  const std::string text = "<|start|>the<user><unk><|start|>><unused>";
  EXPECT_EQ(tokenizer.tokenize(text, {.parse_special = true}),
            (Tokens{words.start, words.the, words.user, words.unknown, words.start_long, '<', 'u',
                    'n', 'u', 's', 'e', 'd', '>'}));  // the longest literal wins
  const auto plain = tokenizer.tokenize(text, {.parse_special = false});
  EXPECT_EQ(std::ranges::count(plain, words.user), 1);  // user-defined tokens are always found
  for (const auto id : plain) EXPECT_FALSE(tokenizer.is_special(id));
  EXPECT_EQ(tokenizer.detokenize(plain, {}).value(), text);
}

TEST(Tokenizer, SpecialTokensCountOnlyWhollyOutsidePlainSpans) {
  const Words words;
  const auto tokenizer = load_good(words.test.builder());
  const auto ids = [&](const std::string& text, const TextSpans& plain) {
    return tokenizer.tokenize(text, {.parse_special = true, .plain = plain});
  };
  const auto plain_ids = [&](const std::string& text) { return tokenizer.tokenize(text, {}); };
  const std::string twice = "<|start|><|start|>";  // each has 9 bytes
  EXPECT_EQ(ids(twice, {}), (Tokens{words.start, words.start}));
  EXPECT_EQ(ids(twice, {{0, 18}}), plain_ids(twice));
  for (const TextSpan& cut : {TextSpan{0, 9}, {0, 1}, {8, 9}, {4, 5}}) {
    Tokens wanted = plain_ids("<|start|>");
    wanted.push_back(words.start);
    EXPECT_EQ(ids(twice, {cut}), wanted) << cut.begin;
  }
  EXPECT_EQ(ids(twice, {{9, 18}}).front(), words.start);
  EXPECT_EQ(ids(twice, {{8, 10}}), plain_ids(twice));  // one span cuts both
  EXPECT_EQ(ids(twice, {{0, 1}, {17, 18}}), plain_ids(twice));
  // If the longest literal reaches into plain text, a shorter one at the same place still counts.
  EXPECT_EQ(ids("<|start|>>", {}), Tokens{words.start_long});
  EXPECT_EQ(ids("<|start|>>", {{9, 10}}), (Tokens{words.start, '>'}));
  EXPECT_EQ(ids("<unk>", {{0, 5}}), plain_ids("<unk>"));  // not the unknown token
  // User-defined tokens are not control tokens: spans do not apply to them.
  EXPECT_EQ(ids("<user>the", {{0, 6}}), (Tokens{words.user, words.the}));
  EXPECT_EQ(ids("<user>the", {{3, 9}}), (Tokens{words.user, words.the}));
  // A span cuts no word.
  EXPECT_EQ(ids("the the", {{2, 5}}), (Tokens{words.the, words.space_the}));
}

TEST(Tokenizer, SpecialTokensAreRenderedOrSkipped) {
  const Words words;
  const auto tokenizer = load_good(words.test.builder());
  const Tokens tokens{words.start, words.the, words.user, words.unknown};
  EXPECT_EQ(tokenizer.detokenize(tokens, {.render_special = true}).value(),
            "<|start|>the<user><unk>");
  EXPECT_EQ(tokenizer.detokenize(tokens, {.render_special = false}).value(), "the<user>");
}

TEST(Tokenizer, RefusesIdsOutsideTheVocabulary) {
  const Words words;
  const auto tokenizer = load_good(words.test.builder());
  const auto text = tokenizer.detokenize(Tokens{'a', 100'000}, {});
  ASSERT_FALSE(text);
  EXPECT_EQ(text.error().code, Code::invalid_token);
  EXPECT_NE(text.error().message.find("token 1 is 100000"), std::string::npos);
  EXPECT_FALSE(text.error().hint.empty());
}

TEST(Tokenizer, ByteTokensStandInForMissingBytes) {
  TestVocabulary test;
  test.tokens['\x04'] = "other";
  const auto without = load_good(test.builder());
  EXPECT_FALSE(without.holds_byte(4));
  EXPECT_EQ(without.tokenize("a\x04z", {}), (Tokens{'a', 'z'}));
  const auto byte = test.add("<0x04>", 6);
  const auto with = load_good(test.builder());
  EXPECT_TRUE(with.holds_byte(4));
  EXPECT_EQ(with.tokenize("a\x04z", {}), (Tokens{'a', byte, 'z'}));
  EXPECT_EQ(with.detokenize(Tokens{'a', byte}, {}).value(), "a\x04");
}

// Tries random bytes, valid UTF-8 or not, with three pre-tokenizers: every byte survives.
TEST(Tokenizer, RoundTripOfAnyBytes) {
  for (const auto* pre : {"gpt-2", "smollm", "llama-bpe"}) {
    Words words;
    words.test.pre = pre;
    const auto tokenizer = load_good(words.test.builder());
    std::mt19937_64 random(5);
    for (int i = 0; i < 2000; ++i) {
      std::string text;
      for (auto left = random() % 40; left > 0; --left)
        text += random() % 3 == 0 ? static_cast<char>(random()) : "the 'sS1\n"[random() % 9];
      std::string back;
      for (const auto id : tokenizer.tokenize(text, {.parse_special = true}))
        back += tokenizer.token_bytes(id);
      ASSERT_EQ(back, text);
      const auto decoded = tokenizer.detokenize(tokenizer.tokenize(text, {}), {});
      ASSERT_EQ(decoded.value(), utf8_replace_invalid(text));
    }
  }
}

TEST(Tokenizer, ThreadsGetTheSameTokens) {
  const Words words;
  const auto tokenizer = load_good(words.test.builder());
  const std::string text = "the the thx then thethe";
  const auto alone = load_good(words.test.builder()).tokenize(text, {});
  std::vector<Tokens> results(4);
  {
    std::vector<std::jthread> threads;
    for (auto& result : results)
      threads.emplace_back([&] {
        for (int i = 0; i < 200; ++i) result = tokenizer.tokenize(text, {});
      });
  }
  for (const auto& result : results) EXPECT_EQ(result, alone);
}

TEST(Tokenizer, LongTextsEnd) {
  Words words;
  for (const auto* pre : {"gpt-2", "smollm", "llama-bpe"}) {
    words.test.pre = pre;
    const auto tokenizer = load_good(words.test.builder());
    for (const std::string piece :
         {"a", " ", "\n", "\r\n", "1", "<", "'", "\xff", "<|start|", "é"}) {
      std::string text;
      while (text.size() < (1 << 19)) text += piece;
      const auto tokens = tokenizer.tokenize(text, {.parse_special = true});
      std::size_t bytes = 0;
      for (const auto id : tokens) bytes += tokenizer.token_bytes(id).size();
      EXPECT_EQ(bytes, text.size());
    }
  }
}

}  // namespace
}  // namespace millrace::testing
