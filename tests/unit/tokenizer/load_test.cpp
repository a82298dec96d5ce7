// What the tokenizer keys of a model file may hold, and the error for each wrong value.
#include <limits>

#include "tests/unit/tokenizer/support.hpp"

namespace millrace::testing {
namespace {

using engine::ValueType;

void expect_refused(const GgufBuilder& builder, Code code, const std::vector<std::string>& parts) {
  const auto tokenizer = load(builder);
  ASSERT_FALSE(tokenizer);
  EXPECT_EQ(tokenizer.error().code, code) << tokenizer.error().text();
  for (const auto& part : parts)
    EXPECT_NE(tokenizer.error().message.find(part), std::string::npos)
        << "wanted '" << part << "' in: " << tokenizer.error().message;
  EXPECT_FALSE(tokenizer.error().hint.empty());
}

TEST(TokenizerLoad, RefusesOtherTokenizersByName) {
  TestVocabulary test;
  test.model = "bert";
  expect_refused(test.builder(), Code::unsupported_tokenizer, {"'bert'", "tokenizer.ggml.model"});
  test.model = "gpt2";
  test.pre = "default";
  expect_refused(test.builder(), Code::unsupported_tokenizer, {"'default'", "tokenizer.ggml.pre"});
  GgufBuilder nameless;
  nameless.string("tokenizer.ggml.model", "gpt2");
  expect_refused(nameless, Code::unsupported_tokenizer, {"does not name its pre-tokenizer"});
}

TEST(TokenizerLoad, RefusesMissingKeys) {
  expect_refused(GgufBuilder(), Code::gguf_malformed, {"tokenizer.ggml.model", "absent"});
  GgufBuilder no_tokens;
  no_tokens.string("tokenizer.ggml.model", "gpt2").string("tokenizer.ggml.pre", "gpt-2");
  expect_refused(no_tokens, Code::gguf_malformed, {"tokenizer.ggml.tokens", "absent"});
  auto empty = no_tokens;
  expect_refused(empty.strings("tokenizer.ggml.tokens", {}), Code::gguf_malformed,
                 {"holds 0 tokens"});
  auto no_merges = no_tokens;
  expect_refused(no_merges.strings("tokenizer.ggml.tokens", {"a"}), Code::gguf_malformed,
                 {"tokenizer.ggml.merges", "absent"});
}

TEST(TokenizerLoad, RefusesDamagedEntries) {
  {
    TestVocabulary test;
    test.kinds.pop_back();
    expect_refused(test.builder(), Code::gguf_malformed, {"token_type", "255", "256"});
  }
  {
    TestVocabulary test;
    test.kinds[7] = 9;
    expect_refused(test.builder(), Code::gguf_malformed, {"token_type", "entry 7", "is 9"});
  }
  {
    TestVocabulary test;
    test.add("a");
    expect_refused(test.builder(), Code::gguf_malformed, {"tokens", "entry 256", "'a'", "twice"});
  }
  {
    TestVocabulary test;
    test.add("");
    expect_refused(test.builder(), Code::gguf_malformed, {"entry 256", "empty"});
  }
  {
    TestVocabulary test;
    test.add("<0xZZ>", 6);
    expect_refused(test.builder(), Code::gguf_malformed, {"entry 256", "<0xNN>"});
  }
  {
    TestVocabulary test;
    test.add(std::string(1025, 's'), 3);
    expect_refused(test.builder(), Code::gguf_malformed, {"entry 256", "1025 bytes"});
  }
  {
    TestVocabulary test;
    test.merges.push_back("ab");
    expect_refused(test.builder(), Code::gguf_malformed, {"merges", "entry 0", "not two tokens"});
  }
  {
    TestVocabulary test;
    test.merges.push_back("");
    expect_refused(test.builder(), Code::gguf_malformed, {"merges", "entry 0", "not two tokens"});
  }
  {
    TestVocabulary test;
    test.merges.push_back("a ");
    expect_refused(test.builder(), Code::gguf_malformed, {"merges", "entry 0", "not two tokens"});
  }
  {
    TestVocabulary test;
    test.merges.push_back("a b");  // "ab" is not a token
    expect_refused(test.builder(), Code::gguf_malformed, {"merges", "entry 0", "'a b'"});
  }
}

TEST(TokenizerLoad, RefusesDamagedPieces) {
  GgufBuilder no_scores;
  no_scores.string("tokenizer.ggml.model", "llama")
      .strings("tokenizer.ggml.tokens", {"<unk>"})
      .u32("tokenizer.ggml.unknown_token_id", 0);
  expect_refused(no_scores, Code::gguf_malformed, {"tokenizer.ggml.scores", "absent"});
  PieceVocabulary few_scores;
  few_scores.scores.pop_back();
  expect_refused(few_scores.builder(), Code::gguf_malformed, {"scores", "257", "258"});
  PieceVocabulary nan;
  nan.scores[5] = std::numeric_limits<float>::quiet_NaN();
  expect_refused(nan.builder(), Code::gguf_malformed, {"scores", "entry 5", "not a number"});
  PieceVocabulary twice;
  twice.add("a", 0);
  twice.add("a", 0);
  expect_refused(twice.builder(), Code::gguf_malformed, {"tokens", "entry 259", "'a'", "twice"});
  PieceVocabulary long_piece;
  long_piece.add(std::string(1025, 'a'), 0);
  expect_refused(long_piece.builder(), Code::gguf_malformed, {"entry 258", "1025 bytes"});
  PieceVocabulary outside;
  outside.unknown = 258;
  expect_refused(outside.builder(), Code::gguf_malformed, {"unknown_token_id", "258"});
  expect_refused(
      PieceVocabulary().builder().boolean("tokenizer.ggml.remove_extra_whitespaces", true),
      Code::unsupported_tokenizer, {"remove_extra_whitespaces"});
  PieceVocabulary many_ways;  // the runs of one letter make half a million merges
  for (char letter = 'a'; letter <= 'i'; ++letter)
    for (std::size_t n = 1; n <= 1000; ++n) many_ways.add(std::string(n, letter), 0);
  expect_refused(many_ways.builder(), Code::gguf_malformed, {"tokens", "4194304 ways"});
  GgufBuilder no_bytes;
  no_bytes.string("tokenizer.ggml.model", "llama")
      .strings("tokenizer.ggml.tokens", {"a"})
      .array("tokenizer.ggml.scores", ValueType::f32, std::vector<float>{0});
  expect_refused(no_bytes, Code::gguf_malformed, {"no token for byte 0", "unknown_token_id"});
}

TEST(TokenizerLoad, RefusesIdsOutsideTheVocabulary) {
  for (const auto* key : {"tokenizer.ggml.bos_token_id", "tokenizer.ggml.eos_token_id",
                          "tokenizer.ggml.eot_token_id", "tokenizer.ggml.eom_token_id"})
    expect_refused(TestVocabulary().builder().u32(key, 256), Code::gguf_malformed, {key, "256"});
  expect_refused(TestVocabulary().builder().string("tokenizer.ggml.bos_token_id", "1"),
                 Code::gguf_malformed, {"bos_token_id", "string"});
  expect_refused(TestVocabulary().builder().boolean("tokenizer.ggml.add_bos_token", true),
                 Code::gguf_malformed, {"BOS"});
  expect_refused(TestVocabulary().builder().boolean("tokenizer.ggml.add_eos_token", true),
                 Code::gguf_malformed, {"EOS"});
}

TEST(TokenizerLoad, AddsBosAndEosAsTheFileSays) {
  const auto with_ids = [](const std::string& pre) {
    TestVocabulary test;
    test.pre = pre;
    auto builder = test.builder();
    return builder.u32("tokenizer.ggml.bos_token_id", 1).u32("tokenizer.ggml.eos_token_id", 2);
  };
  const auto ids = [](const GgufBuilder& builder) {
    return load_good(builder).tokenize("x", {.add_special_tokens = true});
  };
  EXPECT_EQ(ids(with_ids("gpt-2")), (Tokens{'x'}));
  EXPECT_EQ(ids(with_ids("llama-bpe")), (Tokens{1, 'x'}));  // adds BOS by default
  EXPECT_EQ(ids(with_ids("llama-bpe").boolean("tokenizer.ggml.add_bos_token", false)),
            (Tokens{'x'}));
  const auto both = load_good(with_ids("gpt-2")
                                  .boolean("tokenizer.ggml.add_bos_token", true)
                                  .boolean("tokenizer.ggml.add_eos_token", true));
  EXPECT_EQ(both.tokenize("x", {.add_special_tokens = true}), (Tokens{1, 'x', 2}));
  EXPECT_EQ(both.tokenize("", {.add_special_tokens = true}), (Tokens{1, 2}));
  EXPECT_EQ(both.tokenize("x", {.add_special_tokens = false}), (Tokens{'x'}));
  EXPECT_TRUE(both.adds_bos());
  EXPECT_TRUE(both.adds_eos());
  EXPECT_EQ(both.bos(), 1u);
  EXPECT_EQ(both.eos(), 2u);
}

TEST(TokenizerLoad, FindsEndTokens) {
  TestVocabulary test;
  const auto text_end = test.add("<|endoftext|>", 3);
  test.add("<|eom_id|>", 4);  // user-defined: text, not an end token
  test.add("<|eot|>", 1);     // a normal token is not an end token either
  const auto turn_end = test.add("<turn>", 3);
  const auto tokenizer = load_good(test.builder()
                                       .u32("tokenizer.ggml.eos_token_id", text_end)
                                       .u32("tokenizer.ggml.eot_token_id", turn_end));
  EXPECT_EQ(Tokens(tokenizer.end_tokens().begin(), tokenizer.end_tokens().end()),
            (Tokens{text_end, turn_end}));
}

TEST(TokenizerLoad, EndTokensOfFamilies) {
  const auto ends = [](const TestVocabulary& test) {
    const auto tokenizer = load_good(test.builder());
    return Tokens(tokenizer.end_tokens().begin(), tokenizer.end_tokens().end());
  };
  TestVocabulary phi;
  const auto end = phi.add("<|end|>", 3), text_end = phi.add("</s>", 3);
  EXPECT_EQ(ends(phi), (Tokens{end, text_end}));
  TestVocabulary harmony;  // <|end|> ends a message there, and the answer goes on
  const auto done = harmony.add("<|return|>", 3);
  harmony.add("<|end|>", 3);
  const auto call = harmony.add("<|call|>", 3);
  EXPECT_EQ(ends(harmony), (Tokens{done, call}));
  TestVocabulary gemma;
  const auto turn = gemma.add("<turn|>", 3), tool = gemma.add("<|tool_response>", 4);
  gemma.add("</s>", 3);
  gemma.add("<|tool_call>", 4);
  EXPECT_EQ(ends(gemma), (Tokens{turn, tool}));
}

}  // namespace
}  // namespace millrace::testing
