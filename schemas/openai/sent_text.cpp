#include "schemas/openai/sent_text.hpp"

#include <algorithm>

namespace millrace::openai {

std::string_view SentText::next(std::string_view piece) {
  if (differs_) return {};
  const std::size_t again = std::min(piece.size(), sent_.size() - told_);
  if (std::string_view(sent_).substr(told_, again) != piece.substr(0, again)) {
    differs_ = true;
    return {};
  }
  piece.remove_prefix(again);
  sent_ += piece;
  told_ += again + piece.size();
  return piece;
}

}  // namespace millrace::openai
