#include "engine/supervise/last_words.hpp"

#include <string_view>

namespace millrace::supervise {
namespace {

constexpr std::size_t last_lines = 8;

}  // namespace

std::string last_lines_of(const std::string& output) {
  std::size_t begin = output.size();
  for (std::size_t lines = 0; begin > 0 && lines <= last_lines; --begin) {
    lines += output[begin - 1] == '\n' ? 1 : 0;
    if (lines > last_lines) {
      break;
    }
  }
  std::string words = output.substr(begin);
  while (words.ends_with('\n')) {
    words.pop_back();
  }
  return words.empty() ? "it said nothing" : words;
}

std::optional<Error> own_error(const std::string& output) {
  std::string words = last_lines_of(output);
  std::string hint;
  std::size_t line = words.rfind('\n');
  if (line != std::string::npos && words.compare(line, 3, "\n  ") == 0) {
    hint = words.substr(line + 3);
    words.erase(line);
    line = words.rfind('\n');
  }
  words.erase(0, line == std::string::npos ? 0 : line + 1);
  const std::size_t code_at = words.find(": ");
  const std::size_t text_at = words.find(": ", code_at == std::string::npos ? 0 : code_at + 2);
  if (code_at == std::string::npos || text_at == std::string::npos) {
    return std::nullopt;
  }
  const auto code =
      code_from_name(std::string_view(words).substr(code_at + 2, text_at - code_at - 2));
  return code ? std::optional(Error{*code, words.substr(text_at + 2), hint}) : std::nullopt;
}

}  // namespace millrace::supervise
