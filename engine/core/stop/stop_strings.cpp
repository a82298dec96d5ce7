#include "engine/core/stop/stop_strings.hpp"

#include <algorithm>
#include <utility>

namespace millrace::engine {

StopStrings::StopStrings(std::vector<std::string> strings) : strings_(std::move(strings)) {
  nodes_.emplace_back();
  for (std::size_t i = 0; i < strings_.size(); ++i) {
    State state = start;
    for (const char c : strings_[i]) {
      const auto [child, fresh] = children_.try_emplace(edge(state, static_cast<unsigned char>(c)),
                                                        static_cast<State>(nodes_.size()));
      if (fresh) nodes_.push_back({nodes_[state].depth + 1, start, -1});
      state = child->second;
    }
    if (nodes_[state].match < 0) nodes_[state].match = static_cast<std::int32_t>(i);
  }
  link_failures();
}

// Breadth first, so that a node's failure target, which is shallower, is complete before it.
void StopStrings::link_failures() {
  std::vector<std::pair<std::uint64_t, State>> edges(children_.begin(), children_.end());
  std::sort(edges.begin(), edges.end(), [this](const auto& a, const auto& b) {
    return nodes_[a.second].depth < nodes_[b.second].depth;
  });
  for (const auto& [key, state] : edges) {
    const auto parent = static_cast<State>(key >> 8);
    if (parent != start) {
      nodes_[state].failure = next(nodes_[parent].failure, static_cast<unsigned char>(key & 0xff));
    }
    if (nodes_[state].match < 0) nodes_[state].match = nodes_[nodes_[state].failure].match;
  }
}

StopStrings::State StopStrings::next(State state, unsigned char byte) const {
  for (;;) {
    const auto child = children_.find(edge(state, byte));
    if (child != children_.end()) return child->second;
    if (state == start) return start;
    state = nodes_[state].failure;
  }
}

std::optional<std::string> TextStop::push(std::string_view piece, bool may_stop) {
  if (!strings_ || strings_->empty()) {
    text_ += piece;
    return std::nullopt;
  }
  for (const char c : piece) {
    held_ += c;
    state_ = strings_->next(state_, static_cast<unsigned char>(c));
    const std::int32_t match = strings_->match(state_);
    if (match < 0 || !may_stop) continue;
    const std::string& found = strings_->string(match);
    text_.append(held_, 0, held_.size() - found.size());
    held_.clear();
    return found;
  }
  const std::size_t settled = held_.size() - strings_->pending(state_);
  text_.append(held_, 0, settled);
  held_.erase(0, settled);
  return std::nullopt;
}

void TextStop::flush() {
  text_ += held_;
  held_.clear();
}

}  // namespace millrace::engine
