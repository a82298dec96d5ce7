#include "engine/core/template/search.hpp"

namespace millrace::chat_template {

Search::Search(std::string_view needle, bool from_right)
    : needle_(needle), from_right_(from_right), borders_(needle.size(), 0) {
  std::uint32_t length = 0;
  for (std::size_t i = 1; i < needle.size(); ++i) {
    while (length > 0 && at(needle, i) != at(needle, length)) length = borders_[length - 1];
    if (at(needle, i) == at(needle, length)) ++length;
    borders_[i] = length;
  }
}

std::size_t Search::in(std::string_view text) const {
  if (needle_.empty()) return from_right_ ? text.size() : 0;
  std::size_t matched = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = at(text, i);
    while (matched > 0 && c != at(needle_, matched)) matched = borders_[matched - 1];
    if (c == at(needle_, matched)) ++matched;
    if (matched < needle_.size()) continue;
    return from_right_ ? text.size() - 1 - i : i + 1 - needle_.size();
  }
  return std::string_view::npos;
}

}  // namespace millrace::chat_template
