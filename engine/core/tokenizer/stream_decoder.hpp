#pragma once
// Turns token ids into text as they are sampled. It never splits a character: it holds back bytes
// that may still become one. The pieces joined equal `Tokenizer::detokenize` of all ids.
// Thread safety: one owner; the tokenizer must outlive it.
#include <string>

#include "engine/core/tokenizer/tokenizer.hpp"

namespace millrace::engine {

class StreamDecoder {
 public:
  StreamDecoder(const Tokenizer& tokenizer, const DetokenizeOptions& options)
      : tokenizer_(&tokenizer), options_(options) {}

  // Returns the text that this token completes: valid UTF-8, often empty. With `literal`, a control
  // token gives its literal whatever the options say. Errors: invalid_token, which changes nothing.
  Result<std::string> push(TokenId token, bool literal = false);
  // Returns the bytes that are still held back, as U+FFFD, and resets the decoder.
  std::string finish();
  const std::string& held() const { return held_; }

 private:
  const Tokenizer* tokenizer_;
  DetokenizeOptions options_;
  std::string held_;  // the beginning of a character
  bool in_text_ = false;
};

}  // namespace millrace::engine
