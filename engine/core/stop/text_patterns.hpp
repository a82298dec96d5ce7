#pragma once
// An automaton that finds strings in text by their bytes. Strings and text must be valid UTF-8, so
// that a match, or the beginning of one, always starts at a character. Thread safety: immutable.
#include <string>
#include <utility>
#include <vector>

#include "engine/core/stop/automaton.hpp"

namespace millrace::engine {

class TextPatterns {
 public:
  explicit TextPatterns(std::vector<std::string> strings)  // none may be empty
      : strings_(std::move(strings)), automaton_(bytes_of(strings_)) {}

  using State = Automaton::State;
  State next(State state, char c) const {
    return automaton_.next(state, static_cast<unsigned char>(c));
  }
  std::uint32_t pending(State state) const { return automaton_.pending(state); }
  std::int32_t match(State state) const { return automaton_.match(state); }
  const std::string& string(std::int32_t index) const {
    return strings_[static_cast<std::size_t>(index)];
  }
  bool empty() const { return strings_.empty(); }

 private:
  static std::vector<std::vector<Automaton::Symbol>> bytes_of(
      const std::vector<std::string>& strings) {
    std::vector<std::vector<Automaton::Symbol>> out;
    for (const std::string& s : strings) {
      auto& bytes = out.emplace_back();
      for (const char c : s) bytes.push_back(static_cast<unsigned char>(c));
    }
    return out;
  }

  std::vector<std::string> strings_;
  Automaton automaton_;
};

}  // namespace millrace::engine
