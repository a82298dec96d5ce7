#pragma once
// The forms of tool calls that are not wholly JSON; for tool_call.cpp. Each returns the calls of a
// text, or none where the text does not have the form throughout. Thread safety: pure functions.
#include <string_view>
#include <vector>

#include "schemas/openai/tool_call.hpp"

namespace millrace::openai {

// f[ARGS]{...}, several of them with [TOOL_CALLS] between; the special token [ARGS] has no text.
std::vector<ToolCall> named_calls(std::string_view text);
// f.call(a=1, b="x")
std::vector<ToolCall> python_call(std::string_view text);
// <function=f><parameter=a>1</parameter></function>
std::vector<ToolCall> function_tags(std::string_view text, const JsonList& tools);
// f<arg_key>a</arg_key><arg_value>1</arg_value>
std::vector<ToolCall> argument_tags(std::string_view text, const JsonList& tools);
// call:f{a:1,b:<|"|>x<|"|>}: objects with keys as they are, and texts between marks.
std::vector<ToolCall> bare_key_call(std::string_view text);
// <｜tool▁call▁begin｜>f<｜tool▁sep｜>{...}<｜tool▁call▁end｜>, or before V3.1 with "function"
// before the separator, and after it the name and the arguments in a block of code.
std::vector<ToolCall> separated_calls(std::string_view text);
// A header of a channel with to=functions.f, and the arguments after <|message|>.
std::vector<ToolCall> channel_call(std::string_view text);

}  // namespace millrace::openai
