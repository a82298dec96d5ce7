#include "engine/core/stop/stop_machine.hpp"

#include <algorithm>
#include <utility>

namespace millrace::engine {

StopRules::StopRules(const Stops& stops, const Tokens& end_of_text, std::uint32_t minimum,
                     std::uint32_t maximum)
    : ids(stops.token_ids), min_tokens(minimum), max_tokens(maximum) {
  if (!stops.ignore_eos) ids.insert(ids.end(), end_of_text.begin(), end_of_text.end());
  std::sort(ids.begin(), ids.end());
  ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
  if (!stops.strings.empty()) strings = std::make_shared<const StopStrings>(stops.strings);
}

StopMachine::StopMachine(std::shared_ptr<const StopRules> rules)
    : rules_(std::move(rules)), text_(rules_->strings) {}

bool StopMachine::is_stop_token(TokenId id) const {
  return std::binary_search(rules_->ids.begin(), rules_->ids.end(), id);
}

std::optional<FinishReason> StopMachine::push(TokenId id, std::string_view piece) {
  ++count_;
  if (is_stop_token(id)) {
    stop_token_ = id;
    return FinishReason::stop;
  }
  stop_string_ = text_.push(piece, count_ >= rules_->min_tokens);
  if (stop_string_) return FinishReason::stop;
  if (count_ >= rules_->max_tokens) return FinishReason::length;
  return std::nullopt;
}

bool StopMachine::close(std::string_view tail) {
  if (stop_string_) return false;
  stop_string_ = text_.push(tail, !stop_token_ && count_ >= rules_->min_tokens);
  if (stop_string_) return true;
  text_.flush();
  return false;
}

}  // namespace millrace::engine
