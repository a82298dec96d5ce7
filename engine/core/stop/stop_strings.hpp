#pragma once
// Finds stop strings in text that arrives in pieces, and holds back what may still become one.
// The strings form one Aho-Corasick automaton over bytes, immutable and shared by the samples of a
// request; a TextStop is one sample's place in it. Strings and text are valid UTF-8, so a match or
// a held-back part always begins at a character. Thread safety: StopStrings may be read from any
// thread, a TextStop has one owner.
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace millrace::engine {

class StopStrings {
 public:
  explicit StopStrings(std::vector<std::string> strings);  // none may be empty

  using State = std::uint32_t;
  static constexpr State start = 0;

  State next(State state, unsigned char byte) const;
  // Bytes at the end of the text that are the beginning of some string.
  std::uint32_t pending(State state) const { return nodes_[state].depth; }
  // The longest string that ends here; -1: none.
  std::int32_t match(State state) const { return nodes_[state].match; }
  const std::string& string(std::int32_t index) const {
    return strings_[static_cast<std::size_t>(index)];
  }
  bool empty() const { return strings_.empty(); }

 private:
  struct Node {
    std::uint32_t depth = 0;
    std::uint32_t failure = start;
    std::int32_t match = -1;
  };
  static std::uint64_t edge(State state, unsigned char byte) {
    return (static_cast<std::uint64_t>(state) << 8) | byte;
  }
  void link_failures();

  std::vector<std::string> strings_;
  std::vector<Node> nodes_;
  std::unordered_map<std::uint64_t, State> children_;
};

class TextStop {
 public:
  explicit TextStop(std::shared_ptr<const StopStrings> strings) : strings_(std::move(strings)) {}

  // Appends text. With `may_stop`, ends at the first string completed in it and returns that
  // string; the text then ends before it and takes no more. Without, strings are let through.
  std::optional<std::string> push(std::string_view piece, bool may_stop);
  // The text is over and what was held back belongs to it.
  void flush();

  const std::string& text() const { return text_; }  // what can no longer become a stop string
  const std::string& held() const { return held_; }

 private:
  std::shared_ptr<const StopStrings> strings_;
  StopStrings::State state_ = StopStrings::start;
  std::string text_, held_;
};

}  // namespace millrace::engine
