#pragma once
// TextSpans names parts of a text by the positions of their bytes. Thread safety: plain values.
#include <cstddef>
#include <vector>

namespace millrace {

struct TextSpan {  // [begin, end)
  std::size_t begin = 0, end = 0;
  friend bool operator==(const TextSpan&, const TextSpan&) = default;
};

// In ascending order. No span is empty, and between two of them lies at least one byte.
using TextSpans = std::vector<TextSpan>;

}  // namespace millrace
