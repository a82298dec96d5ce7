#include "engine/core/stop/stop_machine.hpp"

#include <algorithm>
#include <utility>

namespace millrace::engine {
namespace {

void sort_once(Tokens& ids) {
  std::sort(ids.begin(), ids.end());
  ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
}

bool holds(const Tokens& sorted, TokenId id) {
  return std::binary_search(sorted.begin(), sorted.end(), id);
}

}  // namespace

StopRules::StopRules(const Stops& stops, const Tokens& end_of_text, std::uint32_t minimum,
                     std::uint32_t maximum)
    : ids(stops.token_ids), include(stops.include), min_tokens(minimum), max_tokens(maximum) {
  for (const Tokens& sequence : stops.sequences) {
    if (sequence.size() == 1) {
      ids.push_back(sequence.front());
    } else {
      sequences.push_back(sequence);
    }
  }
  if (include) text_ids = ids;
  if (!stops.ignore_eos) ids.insert(ids.end(), end_of_text.begin(), end_of_text.end());
  sort_once(ids);
  sort_once(text_ids);
  if (!sequences.empty()) sequence_automaton.emplace(sequences);
  if (!stops.strings.empty()) strings = std::make_shared<const TextPatterns>(stops.strings);
}

bool StopRules::is_stop_token(TokenId id) const {
  return holds(ids, id);
}

bool StopRules::drops_text(TokenId id) const {
  return is_stop_token(id) && !holds(text_ids, id);
}

bool StopRules::is_marker(TokenId id) const {
  return holds(marker_ids, id);
}

StopMachine::StopMachine(std::shared_ptr<const StopRules> rules)
    : rules_(std::move(rules)), text_(rules_->strings, rules_->include), loop_(rules_->repetition) {
  if (rules_->parts) parts_.emplace(rules_->parts);
}

// Returns true if the token completes a sequence, and stores that sequence.
bool StopMachine::follow_sequences(TokenId id) {
  if (!rules_->sequence_automaton) return false;
  const Automaton& automaton = *rules_->sequence_automaton;
  sequence_ = automaton.next(sequence_, id);
  begins_.push_back(text_.size());
  const std::int32_t match = automaton.match(sequence_);
  if (match >= 0 && count_ >= rules_->min_tokens) {
    stop_sequence_ = rules_->sequences[static_cast<std::size_t>(match)];
    return true;
  }
  const std::size_t over = begins_.size() - automaton.pending(sequence_);
  begins_.erase(begins_.begin(), begins_.begin() + static_cast<std::ptrdiff_t>(over));
  return false;
}

std::optional<FinishReason> StopMachine::decide(TokenId id, std::string_view piece) {
  const bool may_stop = count_ >= rules_->min_tokens;
  const bool loops = loop_.push(id);
  if (follow_sequences(id)) {
    ended_ = true;
    text_.push(piece, false, begins_.front());
    if (!rules_->include) text_.cut(begins_[begins_.size() - stop_sequence_->size()]);
    return FinishReason::stop;
  }
  if (rules_->is_stop_token(id)) {
    text_.push(piece, false);
    stop_token_ = id;
    return FinishReason::stop;
  }
  stop_string_ = text_.push(piece, may_stop, begins_.empty() ? TextStop::nothing : begins_.front());
  if (stop_string_) {
    ended_ = true;
    return FinishReason::stop;
  }
  if (count_ >= rules_->max_tokens) return FinishReason::length;
  if (loops && may_stop) return FinishReason::repetition;
  return std::nullopt;
}

std::optional<Tokens> StopMachine::token_spans(MarkedPart part) const {
  std::optional<Tokens> out;
  const auto first_from = [&](std::uint64_t byte) {
    const auto at = std::lower_bound(token_begins_.begin(), token_begins_.end(), byte);
    return static_cast<std::uint32_t>(at - token_begins_.begin());
  };
  if (!parts_) return out;
  for (const PartSpan& span : parts_->spans()) {
    if (span.part != part) continue;
    if (!out) out.emplace();
    const std::uint32_t first = first_from(span.begin), end = first_from(span.end);
    if (first < end) out->insert(out->end(), {first, end});
  }
  return out;
}

void StopMachine::take_settled() {
  if (!parts_) return;
  parts_->push(std::string_view(text_.text()).substr(given_));
  given_ = text_.text().size();
}

std::optional<FinishReason> StopMachine::push(TokenId id, std::string_view piece) {
  ++count_;
  if (parts_) token_begins_.push_back(text_.size());
  const auto reason = decide(id, piece);
  take_settled();
  return reason;
}

bool StopMachine::close(std::string_view tail) {
  if (!ended_) {
    stop_string_ = text_.push(tail, !stop_token_ && count_ >= rules_->min_tokens);
  }
  if (!stop_string_) text_.flush();
  take_settled();
  if (parts_) parts_->flush();
  return !std::exchange(ended_, true) && stop_string_.has_value();
}

}  // namespace millrace::engine
