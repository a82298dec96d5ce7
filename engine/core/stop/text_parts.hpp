#pragma once
// Splits a text at its markers into reasoning, tool calls, and the answer, which is the rest. The
// states are the answer and one for each marker: in the answer every opening counts, in a part only
// its own closing. Markers are searched in text, not in tokens, because a marker's letters may be
// tokenized together with their neighbours. Text that may still become a marker is held back.
//
//   answer ──open of marker i──▶ part i ──its close──▶ answer
//
// Thread safety: PartRules is immutable and shared; a TextParts has one owner.
#include <cstdint>
#include <iosfwd>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/core/stop/text_patterns.hpp"
#include "schemas/base/generation.hpp"

namespace millrace::engine {

class PartRules {
 public:
  // `inside` is the index of the marker in whose part the text begins, because the prompt ends with
  // that marker's opening; -1: the text begins with the answer.
  explicit PartRules(std::vector<Marker> markers, std::int32_t inside = -1);

  const std::vector<Marker>& markers() const { return markers_; }
  std::int32_t inside() const { return inside_; }
  const TextPatterns& opens() const { return opens_; }
  // The closing of part `i`; empty if it has none.
  const TextPatterns& close(std::int32_t i) const { return closes_[static_cast<std::size_t>(i)]; }

 private:
  std::vector<Marker> markers_;
  std::int32_t inside_;
  TextPatterns opens_;
  std::vector<TextPatterns> closes_;
};

// The index of the marker whose opening is at the end of this text, before any spaces and line
// ends; -1: none.
std::int32_t open_marker_at_end(const std::vector<Marker>& markers, std::string_view text);

class TextParts {
 public:
  explicit TextParts(std::shared_ptr<const PartRules> rules);

  void push(std::string_view text);
  void flush();  // ends the text: text that was held back is not a marker

  const std::string& text() const { return text_; }
  const std::optional<std::string>& reasoning() const { return reasoning_; }
  // The last one may still grow if `in_tool_call`.
  const std::vector<std::string>& tool_calls() const { return tool_calls_; }
  bool in_tool_call() const { return part() == MarkedPart::tool_call; }
  void dump(std::ostream& out) const;  // all of it, as text

 private:
  std::optional<MarkedPart> part() const;
  void enter(std::int32_t marker);
  void settle(std::size_t bytes);

  std::shared_ptr<const PartRules> rules_;
  std::int32_t inside_ = -1;
  Automaton::State state_ = Automaton::start;
  std::string held_, text_;
  std::optional<std::string> reasoning_;
  std::vector<std::string> tool_calls_;
};

}  // namespace millrace::engine
