#include "engine/core/tokenizer/score_merges.hpp"

#include <algorithm>
#include <optional>
#include <unordered_map>

#include "schemas/base/utf8.hpp"

namespace millrace::engine {
namespace {

std::size_t first_character(std::string_view text) {
  const auto step = utf8_step(text);
  return step.kind == Utf8Step::Kind::character ? step.bytes : 1;
}

constexpr std::size_t kMostMerges = 1 << 22;

class Merges {
 public:
  Merges(const Vocabulary& vocabulary, std::span<const float> scores)
      : vocabulary_(vocabulary), ranks_(scores.size()) {
    for (TokenId id = 0; id < vocabulary.size(); ++id)
      if (is_piece(id)) pieces_.emplace(vocabulary.bytes(id), id);
    std::vector<float> order(scores.begin(), scores.end());
    std::ranges::sort(order, std::greater());
    order.erase(std::ranges::unique(order).begin(), order.end());
    for (TokenId id = 0; id < vocabulary.size(); ++id)
      ranks_[id] = static_cast<std::uint32_t>(
          std::ranges::lower_bound(order, scores[id], std::greater()) - order.begin());
  }

  Result<ScoreMerges> all() {
    for (TokenId id = 0; id < vocabulary_.size(); ++id) {
      if (is_piece(id)) cut(id);
      if (merges_.size() > kMostMerges)
        return fail(
            Code::gguf_malformed,
            "the pieces of 'tokenizer.ggml.tokens' can be made of two others in more than " +
                std::to_string(kMostMerges) + " ways",
            "the model file's tokenizer is damaged: convert the model again");
    }
    std::ranges::sort(merges_, {}, &MergePair::rank);
    return ScoreMerges{std::move(merges_), std::move(extra_)};
  }

 private:
  // An unused token may be a step towards another; a single character is no step.
  bool is_piece(TokenId id) const {
    const auto text = vocabulary_.bytes(id);
    if (text.empty()) return false;
    const auto kind = vocabulary_.kind(id);
    return kind == TokenKind::normal ||
           (kind == TokenKind::unused && first_character(text) != text.size());
  }

  std::optional<TokenId> piece(std::string_view text) const {
    const auto found = pieces_.find(text);
    if (found == pieces_.end()) return std::nullopt;
    return found->second;
  }

  // Returns the id of a character that is no token; it gets one when it is first seen.
  TokenId extra(std::string_view character) {
    const auto next = vocabulary_.size() + static_cast<TokenId>(extra_.size());
    const auto [found, added] = extra_ids_.try_emplace(std::string(character), next);
    if (added) extra_.emplace_back(character);
    return found->second;
  }

  void cut(TokenId id) {
    const auto text = vocabulary_.bytes(id);
    const auto first = first_character(text);
    for (auto at = first; at < text.size(); at += first_character(text.substr(at))) {
      const auto left_text = text.substr(0, at), right_text = text.substr(at);
      auto left = piece(left_text);
      if (!left && at != first) continue;
      auto right = piece(right_text);
      if (!right && first_character(right_text) != right_text.size()) continue;
      if (!left) left = extra(left_text);
      if (!right) right = extra(right_text);
      merges_.push_back({*left, *right, id, ranks_[id]});
    }
  }

  const Vocabulary& vocabulary_;
  std::vector<std::uint32_t> ranks_;  // of the tokens
  std::unordered_map<std::string_view, TokenId> pieces_;
  std::unordered_map<std::string, TokenId> extra_ids_;
  std::vector<std::string> extra_;
  std::vector<MergePair> merges_;
};

}  // namespace

Result<ScoreMerges> score_merges(const Vocabulary& vocabulary, std::span<const float> scores) {
  return Merges(vocabulary, scores).all();
}

}  // namespace millrace::engine
