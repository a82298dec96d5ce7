#pragma once
// Token ids to text as they are sampled, never splitting a character: bytes that may still become
// one are held back. All pieces joined are what `Tokenizer::detokenize` gives for all ids at once.
// Thread safety: one owner; the tokenizer must outlive it.
#include <string>

#include "engine/core/tokenizer/tokenizer.hpp"

namespace millrace::engine {

class StreamDecoder {
 public:
  StreamDecoder(const Tokenizer& tokenizer, const DetokenizeOptions& options)
      : tokenizer_(&tokenizer), options_(options) {}

  // The text that this token completes: valid UTF-8, often empty. With `literal` a control token
  // gives its literal whatever the options say. Errors: invalid_token, and nothing has changed.
  Result<std::string> push(TokenId token, bool literal = false);
  // What is still held back, as U+FFFD; the decoder is then as new.
  std::string finish();
  const std::string& held() const { return held_; }

 private:
  const Tokenizer* tokenizer_;
  DetokenizeOptions options_;
  std::string held_;  // the beginning of a character
};

}  // namespace millrace::engine
