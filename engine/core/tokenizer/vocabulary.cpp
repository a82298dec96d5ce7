#include "engine/core/tokenizer/vocabulary.hpp"

#include <algorithm>
#include <cmath>
#include <string>
#include <unordered_set>

#include "engine/core/gguf/cursor.hpp"
#include "engine/core/tokenizer/byte_alphabet.hpp"
#include "engine/core/tokenizer/score_merges.hpp"

namespace millrace::engine {
namespace {

constexpr std::string_view kTokensKey = "tokenizer.ggml.tokens";
constexpr std::string_view kKindsKey = "tokenizer.ggml.token_type";
constexpr std::string_view kMergesKey = "tokenizer.ggml.merges";
constexpr std::string_view kScoresKey = "tokenizer.ggml.scores";
constexpr std::string_view kUnknownKey = "tokenizer.ggml.unknown_token_id";
constexpr std::size_t kMostTokens = 1 << 24;
// Bounds the search for literals in text, and the ways to cut a piece into two.
constexpr std::size_t kLongestLiteral = 1024;

std::unexpected<Error> bad_entry(std::string_view key, std::size_t index,
                                 const std::string& reason) {
  return fail(
      Code::gguf_malformed,
      "metadata key '" + std::string(key) + "': entry " + std::to_string(index) + " " + reason,
      "the model file's tokenizer is damaged: convert the model again");
}

std::string quoted(std::string_view text) {
  std::string result = "'";
  result += printable(text);
  result += '\'';
  return result;
}

// Returns the byte of an entry such as "<0x1F>".
std::optional<char> parse_byte_entry(std::string_view text) {
  const auto digit = [](char c) {
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'A' && c <= 'F') return c - 'A' + 10;
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
  };
  if (text.size() != 6 || !text.starts_with("<0x") || text[5] != '>') return std::nullopt;
  const int high = digit(text[3]), low = digit(text[4]);
  if (high < 0 || low < 0) return std::nullopt;
  return static_cast<char>(high << 4 | low);
}

}  // namespace

std::string with_spaces(std::string_view text) {
  std::string result;
  result.reserve(text.size());
  for (std::size_t at = 0; at < text.size();) {
    const auto found = std::min(text.find(kSpaceSymbol, at), text.size());
    result += text.substr(at, found - at);
    if (found != text.size()) result += ' ';
    at = found + kSpaceSymbol.size();
  }
  return result;
}

Result<Vocabulary> Vocabulary::load(const Metadata& metadata, VocabularyForm form) {
  MILLRACE_ASSIGN(const auto tokens,
                  metadata.get<std::vector<std::string_view>>(std::string_view(kTokensKey)));
  if (tokens.empty() || tokens.size() > kMostTokens)
    return fail(Code::gguf_malformed,
                "metadata key '" + std::string(kTokensKey) + "' holds " +
                    std::to_string(tokens.size()) + " tokens; it must hold 1 to 16777216",
                "convert the model again");
  Vocabulary vocabulary(form);
  MILLRACE_TRY(vocabulary.load_kinds(metadata, tokens.size()));
  MILLRACE_TRY(vocabulary.load_bytes(tokens));
  MILLRACE_TRY(vocabulary.refuse_repeats(tokens));
  vocabulary.index_bytes();
  if (form != VocabularyForm::byte_level) MILLRACE_TRY(vocabulary.load_unknown(metadata));
  if (form == VocabularyForm::scored)
    MILLRACE_TRY(vocabulary.load_scores(metadata));
  else
    MILLRACE_TRY(vocabulary.load_merges(metadata, tokens));
  return vocabulary;
}

Status Vocabulary::load_kinds(const Metadata& metadata, std::size_t count) {
  MILLRACE_ASSIGN(const auto numbers, metadata.find<std::vector<std::int32_t>>(kKindsKey));
  if (!numbers) {
    kinds_.assign(count, TokenKind::normal);
    return {};
  }
  if (numbers->size() != count)
    return fail(Code::gguf_malformed,
                "metadata key '" + std::string(kKindsKey) + "' holds " +
                    std::to_string(numbers->size()) + " entries, but '" + std::string(kTokensKey) +
                    "' holds " + std::to_string(count),
                "convert the model again");
  kinds_.reserve(count);
  for (std::size_t i = 0; i < count; ++i) {
    const auto number = (*numbers)[i];
    if (number < 1 || number > 6)
      return bad_entry(kKindsKey, i, "is " + std::to_string(number) + "; it must be 1 to 6");
    kinds_.push_back(static_cast<TokenKind>(number));
  }
  return {};
}

Status Vocabulary::load_bytes(const std::vector<std::string_view>& tokens) {
  starts_.reserve(tokens.size() + 1);
  starts_.push_back(0);
  const auto add = [this](std::string_view bytes) {
    arena_.insert(arena_.end(), bytes.begin(), bytes.end());
    starts_.push_back(arena_.size());
  };
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    const auto text = tokens[i];
    if (text.empty() && kinds_[i] != TokenKind::unused) return bad_entry(kTokensKey, i, "is empty");
    const bool bounded = kinds_[i] != TokenKind::normal || form_ == VocabularyForm::scored;
    if (bounded && text.size() > kLongestLiteral)
      return bad_entry(kTokensKey, i,
                       "is a special token or a piece of " + std::to_string(text.size()) +
                           " bytes; the limit is 1024");
    const bool control = is_special(static_cast<TokenId>(i));
    if (kinds_[i] != TokenKind::byte && form_ != VocabularyForm::byte_level && !control) {
      add(with_spaces(text));
    } else if (kinds_[i] == TokenKind::normal) {
      // An entry outside the alphabet keeps its text, because the model may draw it.
      const auto bytes = alphabet_to_bytes(text);
      add(bytes ? std::string_view(*bytes) : text);
    } else if (kinds_[i] == TokenKind::byte) {
      const auto byte = parse_byte_entry(text);
      if (!byte)
        return bad_entry(kTokensKey, i, "is " + quoted(text) + "; a byte token must be <0xNN>");
      add({&*byte, 1});
    } else {
      add(text);
    }
  }
  return {};
}

void Vocabulary::index_bytes() {
  by_bytes_.reserve(kinds_.size());
  for (TokenId id = 0; id < size(); ++id)
    if (kinds_[id] == TokenKind::normal) by_bytes_.emplace(bytes(id), id);
  for (unsigned byte = 0; byte < 256; ++byte) {
    const char c = static_cast<char>(byte);
    byte_tokens_[byte] = find({&c, 1});
  }
  // A byte token is the fallback for a byte without a normal token.
  for (TokenId id = 0; id < size(); ++id) {
    if (kinds_[id] != TokenKind::byte) continue;
    auto& token = byte_tokens_[static_cast<std::uint8_t>(bytes(id)[0])];
    if (!token) token = id;
  }
}

Status Vocabulary::refuse_repeats(const std::vector<std::string_view>& tokens) const {
  std::unordered_set<std::string_view> seen;
  seen.reserve(tokens.size());
  for (TokenId id = 0; id < size(); ++id)
    if (!seen.insert(tokens[id]).second && kinds_[id] != TokenKind::unused)
      return bad_entry(kTokensKey, id, quoted(tokens[id]) + " occurs twice");
  return {};
}

Status Vocabulary::load_unknown(const Metadata& metadata) {
  MILLRACE_ASSIGN(unknown_, metadata.find<std::uint32_t>(kUnknownKey));
  if (unknown_ && *unknown_ >= size())
    return fail(Code::gguf_malformed,
                "metadata key '" + std::string(kUnknownKey) + "' is " + std::to_string(*unknown_) +
                    "; the vocabulary has " + std::to_string(size()) + " tokens",
                "convert the model again");
  for (unsigned byte = 0; byte < 256 && !unknown_; ++byte)
    if (!byte_tokens_[byte])
      return fail(Code::gguf_malformed,
                  "the vocabulary has no token for byte " + std::to_string(byte) +
                      " and no unknown token ('" + std::string(kUnknownKey) + "')",
                  "the model file's tokenizer is damaged: convert the model again");
  return {};
}

Status Vocabulary::load_scores(const Metadata& metadata) {
  MILLRACE_ASSIGN(const auto scores, metadata.get<std::vector<float>>(kScoresKey));
  if (scores.size() != size())
    return fail(Code::gguf_malformed,
                "metadata key '" + std::string(kScoresKey) + "' holds " +
                    std::to_string(scores.size()) + " entries, but '" + std::string(kTokensKey) +
                    "' holds " + std::to_string(size()),
                "convert the model again");
  for (TokenId id = 0; id < size(); ++id)
    if (std::isnan(scores[id])) return bad_entry(kScoresKey, id, "is not a number");
  MILLRACE_ASSIGN(auto made, score_merges(*this, scores));
  merges_ = std::move(made.merges);
  extra_characters_ = std::move(made.extra_characters);
  return {};
}

Status Vocabulary::load_merges(const Metadata& metadata,
                               const std::vector<std::string_view>& tokens) {
  MILLRACE_ASSIGN(const auto merges, metadata.get<std::vector<std::string_view>>(kMergesKey));
  std::unordered_map<std::string_view, TokenId> by_text;
  by_text.reserve(tokens.size());
  for (TokenId id = 0; id < size(); ++id) by_text.emplace(tokens[id], id);
  merges_.reserve(merges.size());
  std::string joined;
  for (std::size_t i = 0; i < merges.size(); ++i) {
    // Neither half holds a space (files write it as U+0120 or U+2581), so the only space separates
    // them.
    const auto space = merges[i].find(' ', 1);
    if (space == std::string_view::npos || space + 1 == merges[i].size())
      return bad_entry(kMergesKey, i, quoted(merges[i]) + " is not two tokens");
    const auto left = merges[i].substr(0, space), right = merges[i].substr(space + 1);
    joined.assign(left);
    joined += right;
    const auto a = by_text.find(left), b = by_text.find(right), c = by_text.find(joined);
    if (a == by_text.end() || b == by_text.end() || c == by_text.end())
      return bad_entry(
          kMergesKey, i,
          quoted(merges[i]) + " names a token that is not in '" + std::string(kTokensKey) + "'");
    merges_.push_back({a->second, b->second, c->second, static_cast<std::uint32_t>(i)});
  }
  return {};
}

std::optional<TokenId> Vocabulary::find(std::string_view bytes) const {
  const auto found = by_bytes_.find(bytes);
  if (found == by_bytes_.end()) return std::nullopt;
  return found->second;
}

}  // namespace millrace::engine
