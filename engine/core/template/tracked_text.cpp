#include "engine/core/template/tracked_text.hpp"

#include <limits>

namespace millrace::chat_template {

Taint whole_taint() {
  static const TextSpans whole = {{0, std::numeric_limits<std::size_t>::max()}};
  return &whole;
}

std::span<const TextSpan> TrackedView::spans() const {
  if (taint == nullptr || bytes.empty()) return {};
  const auto first = std::partition_point(taint->begin(), taint->end(),
                                          [&](const TextSpan& s) { return s.end <= begin; });
  const auto last = std::partition_point(
      first, taint->end(), [&](const TextSpan& s) { return s.begin < begin + bytes.size(); });
  return {first, last};
}

void TrackedText::append(std::string_view more, bool tainted) {
  if (tainted && !more.empty()) {
    if (taint.empty() || taint.back().end < bytes.size()) taint.push_back({bytes.size(), 0});
    taint.back().end = bytes.size() + more.size();
  }
  bytes += more;
}

void TrackedText::append(const TrackedView& more) {
  more.for_each_run([&](std::string_view run, bool tainted) { append(run, tainted); });
}

}  // namespace millrace::chat_template
