#pragma once
// shown() writes a text and its taint in the notation of the tests.
#include <gtest/gtest.h>

#include <string>

#include "schemas/base/text_span.hpp"

namespace millrace::chat_template {

// Returns the text with «» around the parts that came from messages.
inline std::string shown(const std::string& text, const TextSpans& spans) {
  std::string out;
  std::size_t done = 0;
  for (const auto& [begin, end] : spans) {
    EXPECT_LT(begin, end);
    EXPECT_LE(end, text.size());
    EXPECT_TRUE(begin > done || done == 0) << "spans touch or overlap at " << begin;
    out += text.substr(done, begin - done) + "«" + text.substr(begin, end - begin) + "»";
    done = end;
  }
  return out + text.substr(done);
}

}  // namespace millrace::chat_template
