#pragma once
// tokenizer.json: the vocabulary and rules of a tokenizer, as the library `tokenizers` writes them.
// Two kinds are read: byte-level BPE, whose pre-tokenizer must be one that the engine knows, and
// SentencePiece's BPE (U+2581 for a space, <0xNN> for bytes). Errors: folder_malformed,
// unsupported_tokenizer, which name what is not known. Thread safety: a pure function.
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "schemas/base/error.hpp"

namespace millrace::engine {

struct TokenizerFile {
  std::string model;          // as in tokenizer.ggml.model: gpt2, llama, gemma4
  std::string pre_tokenizer;  // as in tokenizer.ggml.pre; of byte-level vocabularies
  std::vector<std::string> tokens;
  std::vector<std::int32_t> kinds;  // as in tokenizer.ggml.token_type
  std::vector<std::string> merges;  // "left right", by rank; of gpt2 and gemma4
  std::vector<float> scores;        // of llama
  std::map<std::string, std::uint32_t, std::less<>> ids;  // of all tokens
  std::string unknown;                                    // a token's text, or nothing
  bool adds_space = false;                                // before text
  std::string first, last;  // tokens that surround every text, or nothing
};

// `tokens` is the size of the vocabulary that the model has; further ones are unused.
Result<TokenizerFile> read_tokenizer_file(const std::string& path, std::uint32_t tokens);

}  // namespace millrace::engine
