#include "engine/core/stop/text_stop.hpp"

#include <algorithm>

namespace millrace::engine {

std::optional<std::string> TextStop::push(std::string_view piece, bool may_stop,
                                          std::uint64_t hold_from) {
  if (!strings_ || strings_->empty()) {
    held_ += piece;
    settle(0, hold_from);
    return std::nullopt;
  }
  for (const char c : piece) {
    held_ += c;
    state_ = strings_->next(state_, c);
    const std::int32_t match = strings_->match(state_);
    if (match < 0 || !may_stop) continue;
    const std::string& found = strings_->string(match);
    text_.append(held_, 0, held_.size() - (include_ ? 0 : found.size()));
    held_.clear();
    return found;
  }
  settle(strings_->pending(state_), hold_from);
  return std::nullopt;
}

void TextStop::settle(std::uint64_t held_back, std::uint64_t hold_from) {
  const std::uint64_t until = std::min(size() - held_back, std::max(hold_from, text_.size()));
  const std::uint64_t settled = until - text_.size();
  text_.append(held_, 0, settled);
  held_.erase(0, settled);
}

void TextStop::flush() {
  text_ += held_;
  held_.clear();
}

void TextStop::cut(std::uint64_t size) {
  text_.append(held_, 0, size - text_.size());
  held_.clear();
}

}  // namespace millrace::engine
