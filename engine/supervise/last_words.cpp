#include "engine/supervise/last_words.hpp"

#include <string_view>
#include <utility>

namespace millrace::supervise {
namespace {

constexpr std::size_t last_lines = 8;
constexpr std::string_view hint_mark = "  ";

// Parses "PROGRAM: CODE: message".
std::optional<Error> error_in(std::string_view line) {
  const std::size_t code_at = line.find(": ");
  if (code_at == std::string_view::npos) return std::nullopt;
  const std::size_t text_at = line.find(": ", code_at + 2);
  if (text_at == std::string_view::npos) return std::nullopt;
  const auto code = code_from_name(line.substr(code_at + 2, text_at - code_at - 2));
  return code ? std::optional(Error{*code, std::string(line.substr(text_at + 2)), ""})
              : std::nullopt;
}

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
  const std::string words = last_lines_of(output);
  std::string hint;
  for (std::string_view rest = words; !rest.empty();) {
    const std::size_t end_before = rest.rfind('\n');
    const std::string_view line = rest.substr(end_before + 1);  // npos + 1 is 0
    rest = end_before == std::string_view::npos ? std::string_view() : rest.substr(0, end_before);
    if (line.starts_with(hint_mark)) {
      hint = line.substr(hint_mark.size());
      continue;
    }
    if (auto error = error_in(line)) {
      error->hint = std::move(hint);
      return error;
    }
    hint.clear();
  }
  return std::nullopt;
}

std::string last_line_of(const std::string& output) {
  if (const auto own = own_error(output)) {
    return std::string(code_name(own->code)) + ": " + own->message;
  }
  const std::string words = last_lines_of(output);
  return words.substr(words.rfind('\n') + 1);
}

}  // namespace millrace::supervise
