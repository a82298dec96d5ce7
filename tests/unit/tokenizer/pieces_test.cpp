// Vocabularies of pieces with scores (llama) and of characters with merges (gemma4).
#include <algorithm>
#include <random>

#include "engine/core/tokenizer/stream_decoder.hpp"
#include "engine/core/tokenizer/tokenizer.hpp"
#include "tests/unit/tokenizer/support.hpp"

namespace millrace::testing {
namespace {

TEST(Pieces, TheHighestScoreMergesFirstAndTheLeftmostOfEquals) {
  PieceVocabulary test;
  const auto a = test.add("a", -9), b = test.add("b", -9), ab = test.add("ab", -2);
  const auto ba = test.add("ba", -1), aa = test.add("aa", -3);
  const auto tokenizer = load_good(test.builder());
  EXPECT_EQ(tokenizer.tokenize("aba", {}), (Tokens{a, ba}));
  EXPECT_EQ(tokenizer.tokenize("abb", {}), (Tokens{ab, b}));
  EXPECT_EQ(tokenizer.tokenize("aaa", {}), (Tokens{aa, a}));
}

TEST(Pieces, CharactersWithoutATokenBecomeBytes) {
  PieceVocabulary test;
  const auto a = test.add("a", -9);
  test.add("\u2581", -9);
  const auto accented = test.add("aé", -1);  // é alone is no token
  const auto tokenizer = load_good(test.builder());
  EXPECT_EQ(tokenizer.tokenize("aé", {}), Tokens{accented});
  EXPECT_EQ(tokenizer.tokenize("éa\n", {}),
            (Tokens{test.byte(0xc3), test.byte(0xa9), a, test.byte('\n')}));
  EXPECT_EQ(tokenizer.tokenize("\xff", {}), Tokens{test.byte(0xff)});
  EXPECT_EQ(tokenizer.detokenize(tokenizer.tokenize("éa\n", {}), {}).value(), "éa\n");
}

TEST(Pieces, WithoutBytesUnknownTextIsOneUnknownToken) {
  PieceVocabulary test(false);
  const auto a = test.add("a", -9), space = test.add("\u2581", -9);
  test.add("bc", -1);
  const auto tokenizer = load_good(test.builder());
  EXPECT_EQ(tokenizer.tokenize("axyébéa é", {}), (Tokens{a, 0, a, space, 0}));
}

TEST(Pieces, ASpaceBeginsTextAndWhatFollowsAControlToken) {
  PieceVocabulary test;
  const auto word = test.add("\u2581a", -1), space = test.add("\u2581", -9), a = test.add("a", -9);
  test.space_prefix = true;
  const auto with = load_good(test.builder());
  const Tokens tokens{1, word, word, 1, word};
  EXPECT_EQ(with.tokenize("a a<s>a", {.add_special_tokens = true, .parse_special = true}), tokens);
  EXPECT_EQ(with.tokenize("", {}), Tokens{});
  EXPECT_EQ(with.tokenize(" a\u2581a", {}), (Tokens{space, word, word}));
  EXPECT_EQ(with.detokenize(tokens, {}).value(), " a a a");  // a continuation keeps its space
  EXPECT_EQ(with.detokenize(tokens, {.drop_space_prefix = true}).value(), "a aa");
  EXPECT_EQ(with.detokenize(tokens, {.render_special = true, .drop_space_prefix = true}).value(),
            "<s>a a<s>a");
  engine::StreamDecoder decoder(with, {.drop_space_prefix = true});
  EXPECT_EQ(decoder.push(word).value(), "a");
  EXPECT_EQ(decoder.push(word).value(), " a");
  EXPECT_EQ(decoder.finish(), "");
  EXPECT_EQ(decoder.push(word).value(), "a");  // finish() begins a new text

  test.space_prefix = false;
  const auto without = load_good(test.builder());
  EXPECT_EQ(without.tokenize("a a", {}), (Tokens{a, word}));
  EXPECT_EQ(without.detokenize(Tokens{word}, {.drop_space_prefix = true}).value(), " a");
}

TEST(Pieces, Phi3DropsTheWhitespaceAfterItsControlTokens) {
  PieceVocabulary test;
  const auto word = test.add("\u2581a", -1), space = test.add("\u2581", -9);
  const auto user = test.add("<|user|>", 0, 3), end = test.add("<|end|>", 0, 3);
  test.space_prefix = true;
  const std::string text = "<s> a<|user|>\n \u3000a<|end|>\n<|user|>\n";
  auto phi3 = test.builder();
  phi3.string("general.architecture", "phi3");
  EXPECT_EQ(load_good(phi3).tokenize(text, {.parse_special = true}),
            (Tokens{1, space, word, user, word, end, user}));
  auto llama = test.builder();
  llama.string("general.architecture", "llama");
  const auto kept = load_good(llama).tokenize(text, {.parse_special = true});
  EXPECT_EQ(std::ranges::count(kept, test.byte('\n')), 3);
  EXPECT_EQ(std::ranges::count(load_good(phi3).tokenize(text, {}), test.byte('\n')), 3);
}

TEST(Pieces, UserDefinedTokensAreFoundAfterSpacesAreWritten) {
  PieceVocabulary test;
  const auto a = test.add("a", -9), space = test.add("\u2581", -9);
  const auto spaces = test.add("\u2581\u2581", 0, 4), tag = test.add("<a>", 0, 4);
  test.space_prefix = true;
  const auto tokenizer = load_good(test.builder());
  EXPECT_EQ(tokenizer.tokenize(" a<a>a", {}), (Tokens{spaces, a, tag, a}));
  EXPECT_EQ(tokenizer.tokenize("<a>", {}), (Tokens{space, tag}));
  EXPECT_EQ(tokenizer.token_bytes(spaces), "  ");
}

TEST(Pieces, AnUnusedTokenComesApart) {
  PieceVocabulary test;
  const auto a = test.add("a", -9), b = test.add("b", -9);
  test.add("ab", -1, 5);
  const auto abb = test.add("abb", -2);
  const auto tokenizer = load_good(test.builder());
  EXPECT_EQ(tokenizer.tokenize("ab", {}), (Tokens{a, b}));
  EXPECT_EQ(tokenizer.tokenize("abb", {}), Tokens{abb});  // but it may lead to another piece
}

TEST(Pieces, AMegabyteOfOneWordEnds) {
  PieceVocabulary test;
  std::string piece = "a";
  TokenId last = 0;
  for (int i = 0; i < 8; ++i, piece += piece) last = test.add(piece, static_cast<float>(i));
  test.add("\u2581", -1);
  const auto tokenizer = load_good(test.builder());
  EXPECT_TRUE(tokenizer.tokenize(std::string(1 << 20, 'a'), {}) == Tokens((1 << 20) / 128, last));
  std::string text;
  while (text.size() < (1 << 20)) text += "aaaé ";
  EXPECT_TRUE(tokenizer.detokenize(tokenizer.tokenize(text, {}), {}).value() == text);
}

TEST(Pieces, RoundTripOfAnyBytes) {
  PieceVocabulary test;
  for (const auto* piece : {"\u2581", "a", "é", "aé", "\u2581a", "a\u2581", "éa\u2581\u2581"})
    test.add(piece, -static_cast<float>(test.tokens.size() % 7));
  for (const bool prefix : {false, true}) {
    test.space_prefix = prefix;
    const auto tokenizer = load_good(test.builder());
    std::mt19937_64 random(7);
    for (int i = 0; i < 2000; ++i) {
      std::string text;
      for (auto left = random() % 80; left > 0; --left)
        text += random() % 4 == 0 ? static_cast<char>(random()) : "a \xc3\xa9<s>"[random() % 7];
      if (text.contains("\u2581")) continue;
      const auto tokens = tokenizer.tokenize(text, {.parse_special = true});
      bool in_text = false;
      std::string back;
      for (const auto id : tokens)
        back += tokenizer.text_of(id, {.render_special = true, .drop_space_prefix = true}, in_text);
      ASSERT_EQ(back, text);
    }
  }
}

TEST(Pieces, Gemma4MergesCharactersByRank) {
  GgufBuilder file;
  std::vector<std::string> tokens{"<unk>", "\u2581", "a", "b", "\n", "ab", "\u2581a", "\n\n"};
  for (int byte = 0; byte < 256; ++byte) {
    constexpr std::string_view digits = "0123456789ABCDEF";
    tokens.push_back(std::string("<0x") + digits[static_cast<std::size_t>(byte) / 16] +
                     digits[static_cast<std::size_t>(byte) % 16] + ">");
  }
  std::vector<std::int32_t> kinds(tokens.size(), 6);
  std::fill(kinds.begin(), kinds.begin() + 8, 1);
  kinds[0] = 3;
  file.string("tokenizer.ggml.model", "gemma4")
      .strings("tokenizer.ggml.tokens", tokens)
      .array("tokenizer.ggml.token_type", engine::ValueType::i32, kinds)
      .strings("tokenizer.ggml.merges", {"a b", "\u2581 a", "\n \n"})
      .u32("tokenizer.ggml.unknown_token_id", 0);
  const auto tokenizer = load_good(file);
  EXPECT_EQ(tokenizer.tokenize(" ab a\n\n\né", {}), (Tokens{1, 5, 6, 7, 4, 8 + 0xc3, 8 + 0xa9}));
  EXPECT_EQ(tokenizer.detokenize(Tokens{1, 5, 6, 7}, {}).value(), " ab a\n\n");
}

}  // namespace
}  // namespace millrace::testing
