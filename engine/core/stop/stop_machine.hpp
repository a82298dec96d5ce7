#pragma once
// Decides, token by token, whether a sequence has ended and why, and gathers its text.
// Order of the reasons on one token: a stop token, a stop string, then the length, so that a stop
// wins where several meet. Before `min_tokens` tokens the sampler bans the stop tokens, and a stop
// string completed by an earlier token is let through as text. Thread safety: one owner thread.
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "engine/core/stop/stop_strings.hpp"
#include "schemas/base/generation.hpp"

namespace millrace::engine {

// What ends the samples of one request; immutable, shared by them.
struct StopRules {
  Tokens ids;  // sorted: the request's ids, and the model's ends of text unless ignore_eos
  std::shared_ptr<const StopStrings> strings;
  std::uint32_t min_tokens = 0;
  std::uint32_t max_tokens = 0;  // at least 1

  StopRules(const Stops& stops, const Tokens& end_of_text, std::uint32_t min_tokens,
            std::uint32_t max_tokens);
  // Whether the sampler must ban the stop tokens for the token after `count` others.
  bool bans_stop_tokens(std::uint32_t count) const { return count < min_tokens; }
};

class StopMachine {
 public:
  explicit StopMachine(std::shared_ptr<const StopRules> rules);

  // Whether this id ends the sequence by itself; then its text is no part of the output and `push`
  // takes an empty piece.
  bool is_stop_token(TokenId id) const;

  // Takes the next sampled token and the text that it completes. `stop` and `length` end it.
  std::optional<FinishReason> push(TokenId id, std::string_view piece);
  // The end for another reason (`length`, `cancelled`, a stop token): `tail` is what the
  // detokenizer still held. Returns true where that tail completes a stop string after all.
  bool close(std::string_view tail);

  std::uint32_t count() const { return count_; }
  const std::string& text() const { return text_.text(); }
  const std::optional<std::string>& stop_string() const { return stop_string_; }
  const std::optional<TokenId>& stop_token() const { return stop_token_; }

 private:
  std::shared_ptr<const StopRules> rules_;
  TextStop text_;
  std::uint32_t count_ = 0;
  std::optional<std::string> stop_string_;
  std::optional<TokenId> stop_token_;
};

}  // namespace millrace::engine
