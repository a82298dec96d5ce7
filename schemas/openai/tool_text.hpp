#pragma once
// A text with tool calls that is read from its front; for the sources of tool_call.hpp.
// Thread safety: pure functions.
#include <optional>
#include <string>
#include <string_view>

namespace millrace::openai {

std::string_view trimmed(std::string_view text);  // without spaces and line ends around it
bool is_tool_name(std::string_view name);

// Each takes what it returns or skips from the text's front, after spaces.
bool take(std::string_view& text, std::string_view literal);
// Takes the text up to the literal, and the literal; nothing where it does not occur.
std::optional<std::string_view> take_until(std::string_view& text, std::string_view literal);
// Takes an object or an array. Its end is where its brackets are closed: the caller checks it.
std::optional<std::string_view> take_json(std::string_view& text);
// Takes an argument of a call in Python's form, as JSON: up to a comma or a closing bracket.
std::optional<std::string_view> take_argument(std::string_view& text);
std::string_view take_name(std::string_view& text);  // letters, digits, `_`, `-`, `.`, `:` and `/`

// The object in one line, if this is one: safe to build (check_json.hpp), and an object.
std::optional<std::string> json_object(std::string_view text);

}  // namespace millrace::openai
