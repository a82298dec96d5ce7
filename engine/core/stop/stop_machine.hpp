#pragma once
// Decides, token by token, whether a sequence has ended and why, and gathers its text and the
// text's parts. If one token gives several reasons, the first of this list counts: a stop sequence
// (which may end in a stop token), a stop token, a stop string, the length, a loop. Before
// `min_tokens` tokens the sampler bans the stop tokens, and sequences, strings and loops do not end
// the text.
//
//   tokens ─▶ sequences (automaton over ids) ─┐
//   pieces ─▶ TextStop (strings, hold-back) ──┴─▶ settled text ─▶ TextParts (markers) ─▶ answer,
//   parts
//
// Thread safety: one owner thread.
#include <cstdint>
#include <iosfwd>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/core/stop/loop_detector.hpp"
#include "engine/core/stop/reasoning_budget.hpp"
#include "engine/core/stop/text_parts.hpp"
#include "engine/core/stop/text_stop.hpp"
#include "schemas/base/generation.hpp"

namespace millrace::engine {

// The stop rules of one request. They are immutable, and its samples share them.
struct StopRules {
  Tokens ids;       // sorted: the request's ids, and the model's ends of text unless ignore_eos
  Tokens text_ids;  // sorted: stop ids whose text belongs to the output, with Stops::include
  std::vector<Tokens> sequences;  // of two or more tokens
  std::optional<Automaton> sequence_automaton;
  std::shared_ptr<const TextPatterns> strings;
  bool include = false;
  std::uint32_t min_tokens = 0;
  std::uint32_t max_tokens = 0;            // at least 1
  std::shared_ptr<const PartRules> parts;  // null: the text is not split
  Tokens marker_ids;  // sorted: tokens that are markers but have no text of their own
  std::optional<ReasoningLimit> reasoning_limit;  // only with `parts`
  RepetitionDetection repetition;

  StopRules(const Stops& stops, const Tokens& end_of_text, std::uint32_t min_tokens,
            std::uint32_t max_tokens);
  // Whether the sampler must ban the stop tokens for the token after `count` others.
  bool bans_stop_tokens(std::uint32_t count) const { return count < min_tokens; }
  // Whether this id ends the sequence by itself.
  bool is_stop_token(TokenId id) const;
  // Whether the id's text is not part of the output, so that `StopMachine::push` needs an empty
  // piece.
  bool drops_text(TokenId id) const;
  // Whether the id is a marker, so that its literal counts as text although such tokens have none.
  bool is_marker(TokenId id) const;
};

class StopMachine {
 public:
  explicit StopMachine(std::shared_ptr<const StopRules> rules);

  // Adds the next sampled token and the text that it completes. Returns why the sequence ends
  // (`stop`, `length` or `repetition`), or nothing if it goes on.
  std::optional<FinishReason> push(TokenId id, std::string_view piece);
  // Call this at the end of a sequence; `tail` is the text that the detokenizer still held. Returns
  // true if the tail completes a stop string.
  bool close(std::string_view tail);

  std::uint32_t count() const { return count_; }
  // The settled text, which can no longer become a stop or a marker.
  const std::string& text() const { return parts_ ? parts_->text() : text_.text(); }
  const std::optional<TextParts>& parts() const { return parts_; }
  // Which tokens are this part of the text, in the form of Choice::reasoning_spans; nothing where
  // the text has no such part.
  std::optional<Tokens> token_spans(MarkedPart part) const;
  const std::optional<std::string>& stop_string() const { return stop_string_; }
  const std::optional<TokenId>& stop_token() const { return stop_token_; }
  const std::optional<Tokens>& stop_sequence() const { return stop_sequence_; }
  void dump(std::ostream& out) const;  // all of it, as text

 private:
  bool follow_sequences(TokenId id);
  void take_settled();
  std::optional<FinishReason> decide(TokenId id, std::string_view piece);

  std::shared_ptr<const StopRules> rules_;
  TextStop text_;
  std::optional<TextParts> parts_;
  LoopDetector loop_;
  std::size_t given_ = 0;  // bytes of settled text that parts_ has taken
  Automaton::State sequence_ = Automaton::start;
  std::vector<std::uint64_t> begins_;  // where the text of each token of a possible sequence begins
  std::vector<std::uint64_t> token_begins_;  // where that of each token begins, if there are parts
  std::uint32_t count_ = 0;
  bool ended_ = false;  // the text takes no more
  std::optional<std::string> stop_string_;
  std::optional<TokenId> stop_token_;
  std::optional<Tokens> stop_sequence_;
};

}  // namespace millrace::engine
