#include "engine/core/stop/text_parts.hpp"

#include <algorithm>

namespace millrace::engine {
namespace {

constexpr std::string_view spaces = " \t\r\n";

std::vector<std::string> opens_of(const std::vector<Marker>& markers, bool only_channels) {
  std::vector<std::string> out;
  for (const Marker& marker : markers) {
    if (!only_channels || marker.part == MarkedPart::channel) out.push_back(marker.open);
  }
  return out;
}

// What the text after a header is; nothing: answer.
std::optional<MarkedPart> announced(std::string_view header) {
  if (header.find("to=") != std::string_view::npos) return MarkedPart::tool_call;
  if (header.find("analysis") != std::string_view::npos) return MarkedPart::reasoning;
  return std::nullopt;
}

}  // namespace

PartRules::PartRules(std::vector<Marker> markers, std::int32_t inside, std::string header)
    : markers_(std::move(markers)),
      inside_(inside),
      header_(std::move(header)),
      opens_(opens_of(markers_, false)),
      headers_(opens_of(markers_, true)) {
  for (std::size_t i = 0; i < markers_.size(); ++i) {
    const Marker& marker = markers_[i];
    closes_.emplace_back(marker.close.empty() ? std::vector<std::string>()
                                              : std::vector<std::string>{marker.close});
    if (marker.part == MarkedPart::channel) {
      header_markers_.push_back(static_cast<std::int32_t>(i));
    }
  }
}

std::int32_t open_marker_at_end(const std::vector<Marker>& markers, std::string_view text) {
  const std::size_t last = text.find_last_not_of(spaces);
  const std::string_view trimmed = text.substr(0, last == std::string_view::npos ? 0 : last + 1);
  std::int32_t header = -1;
  std::size_t header_at = 0;
  for (std::size_t i = 0; i < markers.size(); ++i) {
    const auto index = static_cast<std::int32_t>(i);
    if (trimmed.ends_with(markers[i].open)) return index;
    const std::size_t at = text.rfind(markers[i].open);
    if (markers[i].part != MarkedPart::channel || at == std::string_view::npos) continue;
    if (text.find(markers[i].close, at) != std::string_view::npos) continue;
    if (header < 0 || at > header_at) header = index;
    header_at = std::max(header_at, at);
  }
  return header;
}

std::string header_at_end(const std::vector<Marker>& markers, std::string_view text) {
  const std::size_t last = text.find_last_not_of(spaces);
  text = text.substr(0, last == std::string_view::npos ? 0 : last + 1);
  for (const Marker& marker : markers) {
    if (marker.part != MarkedPart::channel || !text.ends_with(marker.close)) continue;
    text.remove_suffix(marker.close.size());
    break;
  }
  // It begins with the first opening after the header before it.
  std::size_t after = 0, begin = std::string_view::npos;
  for (const Marker& marker : markers) {
    if (marker.part != MarkedPart::channel) continue;
    const std::size_t close = text.rfind(marker.close);
    if (close != std::string_view::npos) after = std::max(after, close + marker.close.size());
  }
  for (const Marker& marker : markers) {
    if (marker.part == MarkedPart::channel) begin = std::min(begin, text.find(marker.open, after));
  }
  return std::string(text.substr(std::min(begin, text.size())));
}

TextParts::TextParts(std::shared_ptr<const PartRules> rules) : rules_(std::move(rules)) {
  if (rules_->inside() >= 0) {
    prompt_header_ = rules_->header();
    enter(rules_->inside(), 0);
  } else {
    message_ = announced(rules_->header());
    if (message_) begin_part(*message_, 0);
  }
}

std::optional<MarkedPart> TextParts::part() const {
  if (inside_ < 0) return message_;
  return rules_->marker(inside_).part;
}

const TextPatterns& TextParts::patterns() const {
  if (inside_ >= 0) return rules_->close(inside_);
  return message_ ? rules_->headers() : rules_->opens();
}

void TextParts::begin_part(MarkedPart part, std::uint64_t begin) {
  if (part == MarkedPart::reasoning && !reasoning_) reasoning_.emplace();
  if (part == MarkedPart::tool_call) tool_calls_.emplace_back();
  spans_.push_back({part, begin});
}

void TextParts::enter(std::int32_t marker, std::uint64_t begin) {
  inside_ = marker;
  const MarkedPart part = rules_->marker(marker).part;
  if (part != MarkedPart::channel) return begin_part(part, begin);
  header_.clear();
  header_begin_ = begin;
}

// A call keeps its header, which names whom it calls.
void TextParts::end_header() {
  message_ = announced(std::exchange(prompt_header_, {}) + header_);
  if (message_) begin_part(*message_, header_begin_);
  if (message_ == MarkedPart::tool_call) {
    tool_calls_.back() = header_ + rules_->marker(inside_).close;
  }
  inside_ = -1;
}

// Takes the opening or closing that the text has just completed.
void TextParts::found(std::int32_t match) {
  const std::size_t size = patterns().string(match).size();
  const std::uint64_t begin = taken_ - size;
  if (inside_ < 0) {
    const std::int32_t marker = message_ ? rules_->header(match) : match;
    settle(held_.size() - size);
    const bool answered = text_.find_first_not_of(spaces) != std::string::npos;
    if (rules_->marker(marker).at_start && answered) return;  // it is text
    if (message_) spans_.back().end = begin;
    message_.reset();
    enter(marker, begin);
  } else {
    settle(held_.size() - size);
    const bool header = rules_->marker(inside_).part == MarkedPart::channel;
    if (!header) spans_.back().end = taken_;
    if (header) {
      end_header();
    } else {
      inside_ = -1;
    }
  }
  held_.clear();
  state_ = Automaton::start;
}

void TextParts::settle(std::size_t bytes) {
  std::string* to = &text_;
  if (part() == MarkedPart::reasoning) to = &*reasoning_;
  if (part() == MarkedPart::tool_call) to = &tool_calls_.back();
  if (part() == MarkedPart::channel) to = &header_;
  to->append(held_, 0, bytes);
  held_.erase(0, bytes);
}

void TextParts::push(std::string_view text) {
  for (const char c : text) {
    held_ += c;
    ++taken_;
    state_ = patterns().next(state_, c);
    const std::int32_t match = patterns().match(state_);
    if (match >= 0) found(match);
  }
  settle(held_.size() - patterns().pending(state_));
}

void TextParts::flush() {
  settle(held_.size());
  if (part() != MarkedPart::channel || header_begin_ > 0 || rules_->inside() < 0) return;
  std::size_t end = header_.size();
  for (const Marker& marker : rules_->markers()) end = std::min(end, header_.find(marker.open));
  text_ += header_.substr(0, end);
}

}  // namespace millrace::engine
