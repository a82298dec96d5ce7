#pragma once
// Ends a text at a stop string, and holds back what may still become one, or belong to a token
// sequence that ends it. Thread safety: one owner.
#include <cstdint>
#include <iosfwd>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "engine/core/stop/text_patterns.hpp"

namespace millrace::engine {

class TextStop {
 public:
  // `strings` may be null. `include`: the string found stays at the end of the text.
  explicit TextStop(std::shared_ptr<const TextPatterns> strings, bool include = false)
      : strings_(std::move(strings)), include_(include) {}

  static constexpr std::uint64_t nothing = std::numeric_limits<std::uint64_t>::max();

  // Appends text. With `may_stop`, ends at the first string completed in it and returns that
  // string; the text then ends before or behind it and takes no more. Without, strings are let
  // through. What begins at byte `hold_from` of the text is held back as well.
  std::optional<std::string> push(std::string_view piece, bool may_stop,
                                  std::uint64_t hold_from = nothing);
  // The text is over and what was held back belongs to it.
  void flush();
  // The text is over and ended at this byte, which has not been settled.
  void cut(std::uint64_t size);

  const std::string& text() const { return text_; }  // settled: never taken back
  const std::string& held() const { return held_; }
  std::uint64_t size() const { return text_.size() + held_.size(); }
  void dump(std::ostream& out) const;  // all of it, as text

 private:
  void settle(std::uint64_t held_back, std::uint64_t hold_from);

  std::shared_ptr<const TextPatterns> strings_;
  bool include_;
  TextPatterns::State state_ = Automaton::start;
  std::string text_, held_;
};

}  // namespace millrace::engine
