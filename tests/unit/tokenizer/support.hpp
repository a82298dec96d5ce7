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
