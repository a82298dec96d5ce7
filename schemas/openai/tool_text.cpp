#include "schemas/openai/tool_text.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "schemas/openai/check_json.hpp"

namespace millrace::openai {
namespace {

constexpr std::string_view spaces = " \t\r\n";

bool is_name_character(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
         c == '-' || c == '.' || c == ':' || c == '/';
}

}  // namespace

std::string_view trimmed(std::string_view text) {
  const std::size_t begin = text.find_first_not_of(spaces);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(spaces) - begin + 1);
}

bool is_tool_name(std::string_view name) {
  return !name.empty() && std::ranges::all_of(name, is_name_character);
}

bool take(std::string_view& text, std::string_view literal) {
  const std::size_t begin = std::min(text.find_first_not_of(spaces), text.size());
  if (!text.substr(begin).starts_with(literal)) return false;
  text.remove_prefix(begin + literal.size());
  return true;
}

std::optional<std::string_view> take_until(std::string_view& text, std::string_view literal) {
  const std::size_t at = text.find(literal);
  if (at == std::string_view::npos) return std::nullopt;
  const std::string_view before = text.substr(0, at);
  text.remove_prefix(at + literal.size());
  return before;
}

std::optional<std::string_view> take_json(std::string_view& text) {
  const std::string_view rest = text.substr(std::min(text.find_first_not_of(spaces), text.size()));
  if (!rest.starts_with('{') && !rest.starts_with('[')) return std::nullopt;
  std::size_t depth = 0;
  bool in_string = false;
  for (std::size_t i = 0; i < rest.size(); ++i) {
    const char c = rest[i];
    if (in_string) {
      if (c == '\\') ++i;
      if (c == '"') in_string = false;
    } else if (c == '"') {
      in_string = true;
    } else if (c == '{' || c == '[') {
      ++depth;
    } else if ((c == '}' || c == ']') && --depth == 0) {
      text = rest.substr(i + 1);
      return rest.substr(0, i + 1);
    }
  }
  return std::nullopt;
}

std::optional<std::string_view> take_argument(std::string_view& text) {
  if (const auto value = take_json(text)) return value;
  text.remove_prefix(std::min(text.find_first_not_of(spaces), text.size()));
  std::size_t end = text.find_first_of(",)");
  if (text.starts_with('"')) {
    for (end = 1; end < text.size() && text[end] != '"'; ++end) {
      if (text[end] == '\\') ++end;
    }
    ++end;
  }
  if (end > text.size()) return std::nullopt;
  const std::string_view value = trimmed(text.substr(0, end));
  text.remove_prefix(end);
  if (value == "True") return "true";
  if (value == "False") return "false";
  if (value == "None") return "null";
  return check_json(value) ? std::optional(value) : std::nullopt;
}

std::string_view take_name(std::string_view& text) {
  const std::string_view rest = text.substr(std::min(text.find_first_not_of(spaces), text.size()));
  const auto end = std::ranges::find_if_not(rest, is_name_character);
  const auto size = static_cast<std::size_t>(end - rest.begin());
  text = rest.substr(size);
  return rest.substr(0, size);
}

std::optional<std::string> json_object(std::string_view text) {
  if (!check_json(text)) return std::nullopt;
  const auto value = nlohmann::ordered_json::parse(text, nullptr, false);
  if (!value.is_object()) return std::nullopt;
  return value.dump();
}

}  // namespace millrace::openai
