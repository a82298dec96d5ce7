#pragma once
// Texts that remember which of their bytes came from a message (taint tracking). A template joins
// its own words with those of messages: "<|im_end|>" is a token in the former and plain text in the
// latter. The taint is stored beside the bytes, so it does not change how a template tests, slices
// and measures texts. Spans begin and end between characters.
// Thread safety: plain values, pure functions.
#include <algorithm>
#include <cstddef>
#include <span>
#include <string>
#include <string_view>

#include "engine/core/template/text.hpp"
#include "schemas/base/text_span.hpp"

namespace millrace::chat_template {

// Points to the tainted parts of a text; null means that there are none.
using Taint = const TextSpans*;

// The taint of a text of any length whose bytes are all tainted.
Taint whole_taint();

// A part of a text together with the taint of the whole text.
struct TrackedView {
  std::string_view bytes;
  Taint taint = nullptr;
  std::size_t begin = 0;  // where `bytes` begins in the text that `taint` describes

  // `view` must lie within `bytes`.
  TrackedView part(std::string_view view) const {
    return {view, taint, begin + static_cast<std::size_t>(view.data() - bytes.data())};
  }

  // Calls run(std::string_view, bool tainted) for each tainted or untainted piece, in order.
  void for_each_run(auto&& run) const {
    std::size_t done = 0;
    for (const TextSpan& span : spans()) {
      const std::size_t from = std::max(span.begin, begin) - begin;
      const std::size_t to = std::min(span.end, begin + bytes.size()) - begin;
      if (from > done) run(bytes.substr(done, from - done), false);
      run(bytes.substr(from, to - from), true);
      done = to;
    }
    if (done < bytes.size()) run(bytes.substr(done), false);
  }

  std::span<const TextSpan> spans() const;  // the spans that share bytes with this part
};

// A text that grows while a template runs.
struct TrackedText {
  std::string bytes;
  TextSpans taint;

  void append(std::string_view more, bool tainted);
  void append(const TrackedView& more);

  TrackedView view() const { return {bytes, &taint}; }
  // `of_bytes` must lie within `bytes`.
  TrackedView part(std::string_view of_bytes) const { return view().part(of_bytes); }
};

}  // namespace millrace::chat_template
