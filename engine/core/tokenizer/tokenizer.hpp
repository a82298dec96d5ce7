#pragma once
// Turns text into token ids and back, as the model file defines it (`tokenizer.ggml.model`):
// byte-level BPE (gpt2) with the pre-tokenizers of pre_tokenizer_rules.cpp, SentencePiece's BPE
// (llama), or Gemma 4's BPE over characters (gemma4).
//
//   MILLRACE_ASSIGN(auto tokenizer, Tokenizer::load(file.metadata()));
//   Tokens ids = tokenizer.tokenize("Hello world", {.add_special_tokens = true});
//   MILLRACE_ASSIGN(std::string text, tokenizer.detokenize(ids, {}));
//
// Text may hold any bytes. Bytes without a token (SmolLM2's vocabulary lacks six control
// characters, the lead bytes F1 and F2, and those that UTF-8 never uses) are dropped before
// merging, as in PyPI tokenizers; see `holds_byte`. The vocabularies of llama and gemma4 do not
// tell U+2581 from a space. Everything else survives the round trip.
// Errors of load: unsupported_tokenizer (with its name), gguf_malformed. The file may be closed
// after load.
// Thread safety: immutable; any number of threads may share a tokenizer.
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "engine/core/gguf/metadata.hpp"
#include "engine/core/tokenizer/token_reach.hpp"
#include "engine/core/tokenizer/vocabulary.hpp"
#include "schemas/base/generation.hpp"
#include "schemas/base/text_span.hpp"

namespace millrace::engine {

struct TokenizeOptions {
  bool add_special_tokens = false;  // BOS and EOS where the file asks for them
  // Literals of control tokens in the text become those tokens; otherwise they are plain text.
  // Literals of user-defined tokens always become tokens.
  bool parse_special = false;
  // With parse_special, the literal of a control token counts only if all of it lies outside these
  // spans. The spans cut no words: the text between two literals is tokenized as one piece.
  std::span<const TextSpan> plain{};
};

struct DetokenizeOptions {
  bool render_special = false;  // write control tokens as their literals, not as nothing
  // Some vocabularies put a space before text, at its start and after a control token. This drops
  // it again, so that all tokens of a text give that text. Tokens that continue a text keep it.
  bool drop_space_prefix = false;
};

class Tokenizer {
 public:
  static Result<Tokenizer> load(const Metadata& metadata);
  ~Tokenizer();
  Tokenizer(Tokenizer&&) noexcept;
  Tokenizer& operator=(Tokenizer&&) noexcept;

  Tokens tokenize(std::string_view text, const TokenizeOptions& options) const;
  // Returns valid UTF-8, with U+FFFD for each damaged part. Errors: invalid_token, with id and
  // position.
  Result<std::string> detokenize(std::span<const TokenId> tokens,
                                 const DetokenizeOptions& options) const;

  // Returns what a token adds to the text. `in_text` is false for a text's first token and
  // passed on from token to token. `id` must be below vocabulary_size().
  std::string_view text_of(TokenId id, const DetokenizeOptions& options, bool& in_text) const;

  std::uint32_t vocabulary_size() const;
  // Returns the token's bytes, which need not be whole characters, or the literal of a special
  // token. `id` must be below vocabulary_size().
  std::string_view token_bytes(TokenId id) const;
  bool is_special(TokenId id) const;  // control or unknown
  bool holds_byte(std::uint8_t byte) const;

  std::optional<TokenId> bos() const;
  std::optional<TokenId> eos() const;
  bool adds_bos() const;
  bool adds_eos() const;
  // Tokens that end a generation, in ascending order: EOS, end of turn and end of message as the
  // file names them, and control tokens with a well-known name for these.
  std::span<const TokenId> end_tokens() const;
  // These, and in gpt-oss's format the token after which further messages follow.
  std::span<const TokenId> message_ends() const;
  // How much text a number of tokens can stand for.
  const TokenReach& reach() const;

 private:
  struct State;
  explicit Tokenizer(std::unique_ptr<const State> state);
  std::unique_ptr<const State> state_;
};

}  // namespace millrace::engine
