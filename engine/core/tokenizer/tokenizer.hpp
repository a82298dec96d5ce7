#pragma once
// Text to token ids and back, as the model file says: byte-level BPE (`tokenizer.ggml.model` gpt2)
// with the pre-tokenizers of pre_tokenizer.hpp.
//
//   MILLRACE_ASSIGN(auto tokenizer, Tokenizer::load(file.metadata()));
//   Tokens ids = tokenizer.tokenize("Hello world", {.add_special_tokens = true});
//   MILLRACE_ASSIGN(std::string text, tokenizer.detokenize(ids, {}));
//
// Any bytes are accepted as text. Bytes that the vocabulary does not hold (SmolLM2's lacks six
// control characters, the lead bytes F1 and F2, and those that UTF-8 never uses) are left out
// before merging, as PyPI tokenizers does; `holds_byte` tells. Everything else comes back
// unchanged. Errors of load: unsupported_tokenizer (by name), gguf_malformed. Thread safety:
// immutable, shared by any number of threads; the file may be closed after load.
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "engine/core/gguf/metadata.hpp"
#include "engine/core/tokenizer/vocabulary.hpp"
#include "schemas/base/generation.hpp"
#include "schemas/base/text_span.hpp"

namespace millrace::engine {

struct TokenizeOptions {
  bool add_special_tokens = false;  // BOS and EOS where the file asks for them
  // Control tokens written in the text become those tokens; else their letters are plain text.
  // User-defined tokens are always found.
  bool parse_special = false;
  // With parse_special a control token counts only where it is written wholly outside of these
  // spans. Their ends cut no word: what lies between two tokens is tokenized as one piece.
  std::span<const TextSpan> plain{};
};

struct DetokenizeOptions {
  bool render_special = false;  // control tokens by their literal; else they give no text
};

class Tokenizer {
 public:
  static Result<Tokenizer> load(const Metadata& metadata);
  ~Tokenizer();
  Tokenizer(Tokenizer&&) noexcept;
  Tokenizer& operator=(Tokenizer&&) noexcept;

  Tokens tokenize(std::string_view text, const TokenizeOptions& options) const;
  // Valid UTF-8, each damaged part as U+FFFD. Errors: invalid_token, naming id and position.
  Result<std::string> detokenize(std::span<const TokenId> tokens,
                                 const DetokenizeOptions& options) const;

  std::uint32_t vocabulary_size() const;
  // The token's bytes, which need not be whole characters; the literal of a special token.
  // `id` must be below vocabulary_size().
  std::string_view token_bytes(TokenId id) const;
  bool is_special(TokenId id) const;  // control or unknown
  bool holds_byte(std::uint8_t byte) const;

  std::optional<TokenId> bos() const;
  std::optional<TokenId> eos() const;
  bool adds_bos() const;
  bool adds_eos() const;
  // Tokens that end a generation: EOS, end of turn and end of message as the file names them, and
  // control tokens with the well-known names of such. Ascending.
  std::span<const TokenId> end_tokens() const;

 private:
  struct State;
  explicit Tokenizer(std::unique_ptr<const State> state);
  std::unique_ptr<const State> state_;
};

}  // namespace millrace::engine
