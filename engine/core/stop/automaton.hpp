#pragma once
// Aho-Corasick: finds many patterns at once in symbols that arrive one by one. A symbol is a byte
// of text or a token id. Any number of readers may share an automaton; each has a State of its own.
// Thread safety: immutable.
#include <cstdint>
#include <unordered_map>
#include <vector>

namespace millrace::engine {

class Automaton {
 public:
  using Symbol = std::uint32_t;
  using State = std::uint32_t;
  static constexpr State start = 0;

  explicit Automaton(const std::vector<std::vector<Symbol>>& patterns);  // none may be empty

  State next(State state, Symbol symbol) const;
  // The number of symbols at the end of the input that are the beginning of some pattern.
  std::uint32_t pending(State state) const { return nodes_[state].depth; }
  // The index of the longest pattern that ends here; -1: none.
  std::int32_t match(State state) const { return nodes_[state].match; }

 private:
  struct Node {
    std::uint32_t depth = 0;
    State failure = start;
    std::int32_t match = -1;
  };
  static std::uint64_t edge(State state, Symbol symbol) {
    return (static_cast<std::uint64_t>(state) << 32) | symbol;
  }
  void link_failures();

  std::vector<Node> nodes_;
  std::unordered_map<std::uint64_t, State> children_;
};

}  // namespace millrace::engine
