#include "schemas/openai/chat_answer.hpp"

#include <utility>

#include "schemas/codec.hpp"

namespace millrace::openai {
namespace {

void write_call(JsonWriter& json, std::string_view job, std::uint32_t choice, const ToolCall& call,
                std::size_t number) {
  json.field("id", tool_call_id(job, choice, number)).field("type", "function");
  json.key("function").begin_object().field("name", call.name);
  json.field("arguments", call.arguments).end_object();
}

}  // namespace

ChatAnswer chat_answer(const Choice& choice, const ToolsOfChat& tools) {
  ChatAnswer out{.content = choice.text, .calls = {}};
  for (const std::string& text : choice.tool_calls) {
    std::vector<ToolCall> calls = parse_tool_calls(text, tools.list);
    if (calls.empty()) out.content += text;
    for (ToolCall& call : calls) out.calls.push_back(std::move(call));
  }
  if (choice.tool_calls.empty() && tools.given) {
    out.calls = parse_bare_tool_calls(choice.text);
    if (!out.calls.empty()) out.content.clear();
  }
  return out;
}

bool may_be_call(std::string_view begin, const ToolsOfChat& tools) {
  return tools.given && may_be_bare_tool_call(begin);
}

std::string_view finish_reason_of(const Choice& choice, bool with_calls) {
  const bool stopped = choice.finish_reason == FinishReason::stop;
  return stopped && with_calls ? "tool_calls" : wire_name(choice.finish_reason);
}

void write_tool_calls(JsonWriter& json, std::string_view job, std::uint32_t choice,
                      std::span<const ToolCall> calls) {
  json.begin_array();
  for (std::size_t i = 0; i < calls.size(); ++i) {
    json.begin_object();
    write_call(json, job, choice, calls[i], i);
    json.end_object();
  }
  json.end_array();
}

void write_tool_call_deltas(JsonWriter& json, std::string_view job, std::uint32_t choice,
                            std::span<const ToolCall> calls, std::size_t first) {
  json.begin_array();
  for (std::size_t i = 0; i < calls.size(); ++i) {
    json.begin_object().field("index", std::uint64_t{first + i});
    write_call(json, job, choice, calls[i], first + i);
    json.end_object();
  }
  json.end_array();
}

}  // namespace millrace::openai
