#pragma once
// Splits a text at its markers into reasoning, tool calls, and the answer, which is the rest. In
// the answer every opening counts, in a part only its own closing. Markers are searched in text,
// not in tokens, because a marker's letters may be tokenized together with their neighbours. Text
// that may still become a marker is held back.
//
//   answer ──open of marker i──▶ part i ──its close──▶ answer
//
// The markers of channels (gpt-oss) enclose headers instead. A header says what the text after it
// is, up to the next header:
//
//   any message ──open──▶ header ──close──▶ answer, reasoning or tool call, by the header
//
// Thread safety: PartRules is immutable and shared; a TextParts has one owner.
#include <cstdint>
#include <iosfwd>
#include <limits>
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
  // `inside` is the index of the marker whose opening the prompt leaves open, so that the text
  // begins in its part; -1: the text begins with the answer, or in the message of the prompt's last
  // header. `header` is what the prompt holds of the header that the text goes on with, or of that
  // message's; see header_at_end.
  explicit PartRules(std::vector<Marker> markers, std::int32_t inside = -1,
                     std::string header = {});

  const std::vector<Marker>& markers() const { return markers_; }
  const Marker& marker(std::int32_t i) const { return markers_[static_cast<std::size_t>(i)]; }
  std::int32_t inside() const { return inside_; }
  const std::string& header() const { return header_; }
  const TextPatterns& opens() const { return opens_; }
  // The openings of channels; those of other markers are left out.
  const TextPatterns& headers() const { return headers_; }
  // The index of the marker that the opening `i` of headers() belongs to.
  std::int32_t header(std::int32_t i) const { return header_markers_[static_cast<std::size_t>(i)]; }
  // The closing of part `i`; empty if it has none.
  const TextPatterns& close(std::int32_t i) const { return closes_[static_cast<std::size_t>(i)]; }

 private:
  std::vector<Marker> markers_;
  std::int32_t inside_;
  std::string header_;
  TextPatterns opens_, headers_;
  std::vector<std::int32_t> header_markers_;
  std::vector<TextPatterns> closes_;
};

// The index of the marker that a prompt which ends with this text leaves open: its opening is at
// the end, before any spaces and line ends, or it is the last opening of a channel and no closing
// follows. -1: none.
std::int32_t open_marker_at_end(const std::vector<Marker>& markers, std::string_view text);

// The header of a channel that a prompt which ends with this text leaves open, as far as the prompt
// holds it; or, where a header's closing is at the end, before any spaces, that header. Else empty.
std::string header_at_end(const std::vector<Marker>& markers, std::string_view text);

// A marked part of the text: its place in bytes, markers included.
struct PartSpan {
  static constexpr std::uint64_t open_end = std::numeric_limits<std::uint64_t>::max();
  MarkedPart part = MarkedPart::reasoning;
  std::uint64_t begin = 0, end = open_end;  // the last part may go on to the end of the text
};

class TextParts {
 public:
  explicit TextParts(std::shared_ptr<const PartRules> rules);

  void push(std::string_view text);
  // Ends the text. Text that was held back is not a marker. Of a header that did not end, the text
  // before any marker is answer where the text began with it: the model wrote no header.
  void flush();

  const std::string& text() const { return text_; }
  const std::optional<std::string>& reasoning() const { return reasoning_; }
  // The last one may still grow if `in_tool_call`.
  const std::vector<std::string>& tool_calls() const { return tool_calls_; }
  bool in_tool_call() const { return part() == MarkedPart::tool_call; }
  bool in_reasoning() const { return part() == MarkedPart::reasoning; }
  // The marker in whose part or header the text is; -1: none, also in the message of a channel.
  std::int32_t inside() const { return inside_; }
  const std::vector<PartSpan>& spans() const { return spans_; }  // by their places
  void dump(std::ostream& out) const;                            // all of it, as text

 private:
  std::optional<MarkedPart> part() const;
  const TextPatterns& patterns() const;
  void found(std::int32_t match);
  void enter(std::int32_t marker, std::uint64_t begin);
  void begin_part(MarkedPart part, std::uint64_t begin);
  void end_header();
  void settle(std::size_t bytes);

  std::shared_ptr<const PartRules> rules_;
  std::int32_t inside_ = -1;           // the marker in whose part or header the text is
  std::optional<MarkedPart> message_;  // what the last header announced; none: answer
  Automaton::State state_ = Automaton::start;
  std::string held_, text_, header_;
  std::string prompt_header_;  // what the prompt holds of the current header
  std::optional<std::string> reasoning_;
  std::vector<std::string> tool_calls_;
  std::vector<PartSpan> spans_;
  std::uint64_t taken_ = 0;         // bytes of text so far, markers included
  std::uint64_t header_begin_ = 0;  // the place of the current header
};

}  // namespace millrace::engine
