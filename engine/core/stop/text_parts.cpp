#include "engine/core/stop/text_parts.hpp"

namespace millrace::engine {
namespace {

std::vector<std::string> opens_of(const std::vector<Marker>& markers) {
  std::vector<std::string> out;
  for (const Marker& marker : markers) out.push_back(marker.open);
  return out;
}

}  // namespace

PartRules::PartRules(std::vector<Marker> markers, std::int32_t inside)
    : markers_(std::move(markers)), inside_(inside), opens_(opens_of(markers_)) {
  for (const Marker& marker : markers_) {
    closes_.emplace_back(marker.close.empty() ? std::vector<std::string>()
                                              : std::vector<std::string>{marker.close});
  }
}

std::int32_t open_marker_at_end(const std::vector<Marker>& markers, std::string_view text) {
  const std::size_t last = text.find_last_not_of(" \t\r\n");
  text = text.substr(0, last == std::string_view::npos ? 0 : last + 1);
  for (std::size_t i = 0; i < markers.size(); ++i) {
    if (text.ends_with(markers[i].open)) return static_cast<std::int32_t>(i);
  }
  return -1;
}

TextParts::TextParts(std::shared_ptr<const PartRules> rules) : rules_(std::move(rules)) {
  if (rules_->inside() >= 0) enter(rules_->inside());
}

std::optional<MarkedPart> TextParts::part() const {
  if (inside_ < 0) return std::nullopt;
  return rules_->markers()[static_cast<std::size_t>(inside_)].part;
}

void TextParts::enter(std::int32_t marker) {
  inside_ = marker;
  state_ = Automaton::start;
  if (part() == MarkedPart::reasoning && !reasoning_) reasoning_.emplace();
  if (part() == MarkedPart::tool_call) tool_calls_.emplace_back();
}

void TextParts::settle(std::size_t bytes) {
  std::string* to = &text_;
  if (part() == MarkedPart::reasoning) to = &*reasoning_;
  if (part() == MarkedPart::tool_call) to = &tool_calls_.back();
  to->append(held_, 0, bytes);
  held_.erase(0, bytes);
}

void TextParts::push(std::string_view text) {
  for (const char c : text) {
    const TextPatterns& patterns = inside_ < 0 ? rules_->opens() : rules_->close(inside_);
    held_ += c;
    state_ = patterns.next(state_, c);
    const std::int32_t match = patterns.match(state_);
    if (match < 0) continue;
    settle(held_.size() - patterns.string(match).size());
    held_.clear();
    enter(inside_ < 0 ? match : -1);
  }
  const TextPatterns& patterns = inside_ < 0 ? rules_->opens() : rules_->close(inside_);
  settle(held_.size() - patterns.pending(state_));
}

void TextParts::flush() {
  settle(held_.size());
}

}  // namespace millrace::engine
