#include "engine/core/tokenizer/literals.hpp"

namespace millrace::engine {

Literals::Literals() : nodes_(1), first_(256, 0) {}

std::uint32_t Literals::child(std::uint32_t node, char byte) const {
  if (node == 0) return first_[static_cast<std::uint8_t>(byte)];
  for (const auto& [edge, to] : nodes_[node].children)
    if (edge == byte) return to;
  return 0;
}

void Literals::add(std::string_view literal, TokenId token) {
  std::uint32_t node = 0;
  for (const char byte : literal) {
    auto next = child(node, byte);
    if (next == 0) {
      next = static_cast<std::uint32_t>(nodes_.size());
      nodes_.emplace_back();
      if (node == 0)
        first_[static_cast<std::uint8_t>(byte)] = next;
      else
        nodes_[node].children.emplace_back(byte, next);
    }
    node = next;
  }
  nodes_[node].ends = true;
  nodes_[node].token = token;
}

Literals::Match Literals::match_at(std::string_view text, std::size_t position) const {
  Match best;
  std::uint32_t node = 0;
  for (std::size_t at = position; at < text.size(); ++at) {
    node = child(node, text[at]);
    if (node == 0) break;
    if (nodes_[node].ends) best = {position, at + 1 - position, nodes_[node].token};
  }
  return best;
}

}  // namespace millrace::engine
