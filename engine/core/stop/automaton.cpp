#include "engine/core/stop/automaton.hpp"

#include <algorithm>
#include <utility>

namespace millrace::engine {

Automaton::Automaton(const std::vector<std::vector<Symbol>>& patterns) {
  nodes_.emplace_back();
  for (std::size_t i = 0; i < patterns.size(); ++i) {
    State state = start;
    for (const Symbol symbol : patterns[i]) {
      const auto [child, fresh] =
          children_.try_emplace(edge(state, symbol), static_cast<State>(nodes_.size()));
      if (fresh) nodes_.push_back({nodes_[state].depth + 1, start, -1});
      state = child->second;
    }
    if (nodes_[state].match < 0) nodes_[state].match = static_cast<std::int32_t>(i);
  }
  link_failures();
}

// Works breadth first, so that a node's failure target, which is shallower, is complete before it.
void Automaton::link_failures() {
  std::vector<std::pair<std::uint64_t, State>> edges(children_.begin(), children_.end());
  std::sort(edges.begin(), edges.end(), [this](const auto& a, const auto& b) {
    return nodes_[a.second].depth < nodes_[b.second].depth;
  });
  for (const auto& [key, state] : edges) {
    const auto parent = static_cast<State>(key >> 32);
    if (parent != start) {
      nodes_[state].failure = next(nodes_[parent].failure, static_cast<Symbol>(key));
    }
    if (nodes_[state].match < 0) nodes_[state].match = nodes_[nodes_[state].failure].match;
  }
}

Automaton::State Automaton::next(State state, Symbol symbol) const {
  for (;;) {
    const auto child = children_.find(edge(state, symbol));
    if (child != children_.end()) return child->second;
    if (state == start) return start;
    state = nodes_[state].failure;
  }
}

}  // namespace millrace::engine
