#pragma once
// Reads the tool calls that models write. Each family has a form of its own:
//
//   {"name": "f", "arguments": {"a": 1}}                          Hermes, Qwen; `parameters`: Llama
//   [{"name": "f", "arguments": {"a": 1}}]                        Mistral, Granite, Phi
//   f[ARGS]{"a": 1}                                               Mistral, later
//   f.call(a=1)                                                   Llama's built-in tools
//   <function=f><parameter=a>1</parameter></function>             Qwen3-Coder
//   f<arg_key>a</arg_key><arg_value>1</arg_value>                 GLM
//   call:f{a:1,b:<|"|>x<|"|>}                                     Gemma 4
//   <｜tool▁call▁begin｜>f<｜tool▁sep｜>{"a": 1}<｜tool▁call▁end｜>   DeepSeek
//   ... to=functions.f ...<|message|>{"a": 1}                     gpt-oss
//
// Thread safety: pure functions.
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "schemas/base/json_value.hpp"

namespace millrace::openai {

struct ToolCall {
  std::string name;
  std::string arguments;  // a JSON object
  friend bool operator==(const ToolCall&, const ToolCall&) = default;
};

// Returns the calls of a text that a model set apart as such, without its markers (Choice::
// tool_calls): in most forms one, in some several. None: the text has none of these forms. `tools`
// are the ones that the model was shown, if they are known: they tell texts from numbers in the
// forms that do not.
std::vector<ToolCall> parse_tool_calls(std::string_view text, const JsonList& tools);

// Returns the calls of a whole answer without markers: objects with name and arguments or
// parameters, and nothing else. So Llama 3 calls tools.
std::vector<ToolCall> parse_bare_tool_calls(std::string_view text);
// Whether an answer that begins with this text may be such. Of no text it may.
bool may_be_bare_tool_call(std::string_view begin);

// The id of a choice's call. It is the same wherever the result is told, and has nine letters and
// digits, because Mistral's templates take no other.
std::string tool_call_id(std::string_view job, std::uint32_t choice, std::size_t number);

}  // namespace millrace::openai
