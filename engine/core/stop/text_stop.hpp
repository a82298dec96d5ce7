#pragma once
// Ends a text at a stop string, and holds back text that may still become one, or belong to a stop
// sequence of tokens. Thread safety: one owner.
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

  // Appends text. With `may_stop`, ends at the first string that it completes and returns that
  // string; the text then ends before or after the string and takes no more. Without `may_stop`,
  // strings have no effect. Text from byte `hold_from` on is held back as well.
  std::optional<std::string> push(std::string_view piece, bool may_stop,
                                  std::uint64_t hold_from = nothing);
  // Ends the text; text that was held back belongs to it.
  void flush();
  // Ends the text at this byte, which must not be settled.
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
