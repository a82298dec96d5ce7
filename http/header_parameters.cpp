#include "http/header_parameters.hpp"

#include <algorithm>
#include <charconv>
#include <optional>

#include "http/request.hpp"
#include "schemas/base/utf8.hpp"

namespace millrace::http {
namespace {

constexpr std::string_view blanks = " \t";

bool is_visible(char letter) {
  const auto byte = static_cast<unsigned char>(letter);
  return byte > 0x20 && byte != 0x7f;
}

bool is_ascii(char letter) {
  return letter > 0x20 && letter < 0x7f;
}

std::string in_lower_case(std::string_view text) {
  std::string lowered(text);
  for (char& letter : lowered) {
    if (letter >= 'A' && letter <= 'Z') letter = static_cast<char>(letter - 'A' + 'a');
  }
  return lowered;
}

void skip_blanks(std::string_view& text) {
  text.remove_prefix(std::min(text.size(), text.find_first_not_of(blanks)));
}

std::string_view take_until(std::string_view& text, std::string_view ends) {
  const std::string_view taken = text.substr(0, text.find_first_of(ends));
  text.remove_prefix(taken.size());
  return taken;
}

// The value behind `NAME=`, which is taken off the text.
Result<std::string> take_value(std::string_view& text, const std::string& name) {
  if (!text.starts_with('"')) {
    const std::string_view token = take_until(text, " \t;");
    if (token.empty() || token.contains('"') || !std::ranges::all_of(token, is_visible)) {
      return fail(Code::invalid_value,
                  "the value of the parameter " + name + " is no token and not in quotes",
                  "put it in quotes");
    }
    return std::string(token);
  }
  std::string value;
  for (std::size_t i = 1; i < text.size(); ++i) {
    if (text[i] == '"') {
      text.remove_prefix(i + 1);
      return value;
    }
    const bool escapes =
        text[i] == '\\' && i + 1 < text.size() && (text[i + 1] == '"' || text[i + 1] == '\\');
    if (escapes) ++i;
    value += text[i];
  }
  return fail(Code::invalid_value, "the value of the parameter " + name + " has no closing quote",
              "end it with a quote, and write a backslash before each quote in it");
}

// Where something is wrong: only names that were read are told, which are ASCII.
std::string behind(const HeaderValue& header) {
  if (header.parameters.empty()) return " behind the first word";
  return " behind the parameter " + header.parameters.back().first;
}

std::optional<char> unescaped(std::string_view escape) {
  unsigned byte = 0;
  if (escape.size() < 3) return std::nullopt;
  const char* const end = escape.data() + 3;
  const auto [rest, error] = std::from_chars(escape.data() + 1, end, byte, 16);
  if (error != std::errc() || rest != end) return std::nullopt;
  return static_cast<char>(byte);
}

std::string utf8_of_latin1(std::string_view text) {
  std::string utf8;
  for (const char letter : text) {
    const auto byte = static_cast<unsigned char>(letter);
    if (byte < 0x80) {
      utf8 += letter;
    } else {
      utf8 += static_cast<char>(0xc0 | (byte >> 6));
      utf8 += static_cast<char>(0x80 | (byte & 0x3f));
    }
  }
  return utf8;
}

}  // namespace

const std::string* HeaderValue::find(std::string_view name) const {
  const auto found =
      std::ranges::find(parameters, name, &std::pair<std::string, std::string>::first);
  return found == parameters.end() ? nullptr : &found->second;
}

Result<HeaderValue> parse_header_value(std::string_view text) {
  HeaderValue header;
  skip_blanks(text);
  header.value = in_lower_case(take_until(text, " \t;"));
  while (true) {
    skip_blanks(text);
    if (text.empty()) return header;
    if (!text.starts_with(';')) {
      return fail(Code::invalid_value, "a semicolon is missing" + behind(header),
                  "write TYPE; NAME=VALUE; NAME=VALUE");
    }
    text.remove_prefix(1);
    skip_blanks(text);
    if (text.empty() || text.starts_with(';')) continue;  // an empty one is allowed
    const std::string name = in_lower_case(take_until(text, " \t;=\""));
    skip_blanks(text);
    if (name.empty() || !text.starts_with('=') || !std::ranges::all_of(name, is_ascii)) {
      return fail(Code::invalid_value, "something else than NAME=VALUE comes" + behind(header),
                  "write TYPE; NAME=VALUE; NAME=VALUE");
    }
    text.remove_prefix(1);
    skip_blanks(text);
    MILLRACE_ASSIGN(std::string value, take_value(text, name));
    if (header.find(name) != nullptr) {
      return fail(Code::invalid_value, "the parameter " + name + " comes twice", "send one");
    }
    header.parameters.emplace_back(name, std::move(value));
  }
}

Result<std::string> decode_extended_value(std::string_view value) {
  const auto wrong = [](std::string_view why) {
    return fail(Code::invalid_value, std::string(why),
                "write UTF-8''NAME and escape what is not ASCII as %XX");
  };
  const std::size_t charset_end = value.find('\'');
  const std::size_t language_end =
      charset_end == value.npos ? value.npos : value.find('\'', charset_end + 1);
  if (language_end == value.npos) return wrong("it does not name its character set");
  const std::string_view charset = value.substr(0, charset_end);
  const bool latin1 = same_name(charset, "ISO-8859-1");
  if (!latin1 && !same_name(charset, "UTF-8")) {
    return wrong("its character set is neither UTF-8 nor ISO-8859-1");
  }
  const std::string_view text = value.substr(language_end + 1);
  std::string plain;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (static_cast<unsigned char>(text[i]) >= 0x80) return wrong("it has a byte beyond ASCII");
    if (text[i] != '%') {
      plain += text[i];
      continue;
    }
    const auto byte = unescaped(text.substr(i));
    if (!byte) return wrong("it has a % without two hexadecimal digits");
    plain += *byte;
    i += 2;
  }
  if (latin1) return utf8_of_latin1(plain);
  if (!utf8_valid(plain)) return wrong("it is not valid UTF-8");
  return plain;
}

}  // namespace millrace::http
