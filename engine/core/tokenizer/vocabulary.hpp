#pragma once
// A model file's vocabulary: the bytes that each token id stands for. It copies tokens, types and
// merges from the file's `tokenizer.ggml.*` keys, so the file may be closed afterwards.
// Errors: gguf_malformed, with the key and the entry. Thread safety: immutable; movable.
#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "engine/core/gguf/metadata.hpp"
#include "schemas/base/generation.hpp"

namespace millrace::engine {

// The numbers of `tokenizer.ggml.token_type`.
enum class TokenKind : std::uint8_t {
  normal = 1,
  unknown = 2,
  control = 3,
  user_defined = 4,
  unused = 5,
  byte = 6,
};

struct MergePair {
  TokenId left, right, merged;
  std::uint32_t rank;  // the lowest merges first
};

// How the file writes its tokens, and where the merges come from (`tokenizer.ggml.model`).
enum class VocabularyForm : std::uint8_t {
  byte_level,  // gpt2: in the alphabet of bytes; a list of merges
  scored,      // llama: as text with U+2581 for a space; merges follow from scores
  text         // gemma4: as text with U+2581 for a space; a list of merges
};

inline constexpr std::string_view kSpaceSymbol = "\u2581";
// Replaces the symbol by the space that it stands for.
std::string with_spaces(std::string_view text);

class Vocabulary {
 public:
  static Result<Vocabulary> load(const Metadata& metadata, VocabularyForm form);
  Vocabulary(Vocabulary&&) = default;
  Vocabulary& operator=(Vocabulary&&) = default;

  VocabularyForm form() const { return form_; }
  std::uint32_t size() const { return static_cast<std::uint32_t>(kinds_.size()); }
  TokenKind kind(TokenId id) const { return kinds_[id]; }
  // What the token stands for: the bytes of a normal or byte token, the literal of any other.
  std::string_view bytes(TokenId id) const {
    return {arena_.data() + starts_[id], starts_[id + 1] - starts_[id]};
  }
  // Control and unknown tokens. The tokenizer matches and renders them only on request.
  bool is_special(TokenId id) const {
    return kinds_[id] == TokenKind::control || kinds_[id] == TokenKind::unknown;
  }
  // Returns the normal token that stands for exactly these bytes.
  std::optional<TokenId> find(std::string_view bytes) const;
  // Returns the token of one byte; nothing if the vocabulary has none.
  std::optional<TokenId> byte_token(std::uint8_t byte) const { return byte_tokens_[byte]; }
  // Returns the token for text without tokens; nothing if the vocabulary has none.
  std::optional<TokenId> unknown() const { return unknown_; }
  const std::vector<MergePair>& merges() const { return merges_; }  // the best rank first
  // Characters that merges name but that are no tokens. The first has the id size(), and so on.
  std::span<const std::string> extra_characters() const { return extra_characters_; }

 private:
  explicit Vocabulary(VocabularyForm form) : form_(form) {}
  Status load_kinds(const Metadata& metadata, std::size_t count);
  Status load_bytes(const std::vector<std::string_view>& tokens);
  Status refuse_repeats(const std::vector<std::string_view>& tokens) const;
  Status load_merges(const Metadata& metadata, const std::vector<std::string_view>& tokens);
  Status load_scores(const Metadata& metadata);
  Status load_unknown(const Metadata& metadata);
  void index_bytes();

  VocabularyForm form_;
  std::vector<TokenKind> kinds_;
  std::vector<char> arena_;  // the tokens' bytes; a vector, so that views survive a move
  std::vector<std::size_t> starts_;
  std::vector<MergePair> merges_;
  std::vector<std::string> extra_characters_;
  std::array<std::optional<TokenId>, 256> byte_tokens_;
  std::optional<TokenId> unknown_;
  std::unordered_map<std::string_view, TokenId> by_bytes_;  // the keys are views of arena_
};

}  // namespace millrace::engine
