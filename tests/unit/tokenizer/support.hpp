#pragma once
// A small vocabulary for tests: all 256 bytes, to which tests add merged words and special tokens.
#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

#include "engine/core/gguf/file.hpp"
#include "engine/core/tokenizer/byte_alphabet.hpp"
#include "engine/core/tokenizer/tokenizer.hpp"
#include "schemas/base/utf8.hpp"
#include "tests/support/gguf_builder.hpp"

namespace millrace::testing {

// Writes bytes in the alphabet of vocabularies.
inline std::string in_alphabet(std::string_view bytes) {
  std::string text;
  for (const char c : bytes)
    utf8_append(text, engine::byte_to_code_point(static_cast<std::uint8_t>(c)));
  return text;
}

struct TestVocabulary {
  std::vector<std::string> tokens;
  std::vector<std::int32_t> kinds;
  std::vector<std::string> merges;
  std::string model = "gpt2", pre = "gpt-2";

  TestVocabulary() {
    for (int byte = 0; byte < 256; ++byte)
      add(in_alphabet(std::string(1, static_cast<char>(byte))));
  }
  TokenId add(const std::string& token, std::int32_t kind = 1) {
    tokens.push_back(token);
    kinds.push_back(kind);
    return static_cast<TokenId>(tokens.size() - 1);
  }
  // Adds a token and the merge that gives it. `left` and `right` are bytes.
  TokenId merge(std::string_view left, std::string_view right) {
    merges.push_back(in_alphabet(left) + " " + in_alphabet(right));
    return add(in_alphabet(left) + in_alphabet(right));
  }

  GgufBuilder builder() const {
    GgufBuilder file;
    file.string("tokenizer.ggml.model", model)
        .string("tokenizer.ggml.pre", pre)
        .strings("tokenizer.ggml.tokens", tokens)
        .array("tokenizer.ggml.token_type", engine::ValueType::i32, kinds)
        .strings("tokenizer.ggml.merges", merges);
    return file;
  }
};

// A vocabulary of SentencePiece's kind: an unknown and a BOS token, all bytes, and pieces that
// tests add.
struct PieceVocabulary {
  std::vector<std::string> tokens{"<unk>", "<s>"};
  std::vector<std::int32_t> kinds{2, 3};
  std::vector<float> scores{0, 0};
  std::uint32_t unknown = 0;
  bool space_prefix = false;

  explicit PieceVocabulary(bool bytes = true) {
    constexpr std::string_view digits = "0123456789ABCDEF";
    for (std::size_t byte = 0; bytes && byte < 256; ++byte)
      add(std::string("<0x") + digits[byte / 16] + digits[byte % 16] + ">", 0, 6);
  }
  TokenId add(const std::string& token, float score, std::int32_t kind = 1) {
    tokens.push_back(token);
    kinds.push_back(kind);
    scores.push_back(score);
    return static_cast<TokenId>(tokens.size() - 1);
  }
  TokenId byte(unsigned value) const { return value + 2; }

  GgufBuilder builder() const {
    GgufBuilder file;
    file.string("tokenizer.ggml.model", "llama")
        .strings("tokenizer.ggml.tokens", tokens)
        .array("tokenizer.ggml.token_type", engine::ValueType::i32, kinds)
        .array("tokenizer.ggml.scores", engine::ValueType::f32, scores)
        .u32("tokenizer.ggml.unknown_token_id", unknown)
        .u32("tokenizer.ggml.bos_token_id", 1)
        .boolean("tokenizer.ggml.add_space_prefix", space_prefix);
    return file;
  }
};

inline Result<engine::Tokenizer> load(const GgufBuilder& builder) {
  auto file = engine::GgufFile::parse(engine::bytes_of(builder.build()), "test.gguf");
  EXPECT_TRUE(file) << file.error().text();
  return engine::Tokenizer::load(file->metadata());  // the tokenizer outlives the file
}

inline engine::Tokenizer load_good(const GgufBuilder& builder) {
  auto tokenizer = load(builder);
  EXPECT_TRUE(tokenizer) << tokenizer.error().text();
  return *std::move(tokenizer);
}

}  // namespace millrace::testing
