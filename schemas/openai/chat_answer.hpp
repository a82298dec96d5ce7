#pragma once
// A chat's answer with its tool calls parsed. What a model set apart as a call and wrote in no
// known form stays in the content, as it is. Thread safety: pure functions.
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "schemas/base/generation.hpp"
#include "schemas/base/json_writer.hpp"
#include "schemas/openai/tool_call.hpp"

namespace millrace::openai {

// The tools of a chat, as far as the writer of its answer knows them.
struct ToolsOfChat {
  bool given = false;  // the model was shown tools
  bool named = true;   // `list` has them; else nobody knows any more which they were
  JsonList list{};
};

struct ChatAnswer {
  std::string content;
  std::vector<ToolCall> calls;
};
ChatAnswer chat_answer(const Choice& choice, const ToolsOfChat& tools);

// Whether an answer that begins with this text may be a call without markers as a whole, so that
// nothing of it can be sent before its end.
bool may_be_call(std::string_view begin, const ToolsOfChat& tools);

// OpenAI's word: "tool_calls" where the model stopped after calls, else ours (FinishReason).
std::string_view finish_reason_of(const Choice& choice, bool with_calls);

// Writes [{id, type, function: {name, arguments}}]. In the events of a stream each has its `index`,
// from `first` on.
void write_tool_calls(JsonWriter& json, std::string_view job, std::uint32_t choice,
                      std::span<const ToolCall> calls);
void write_tool_call_deltas(JsonWriter& json, std::string_view job, std::uint32_t choice,
                            std::span<const ToolCall> calls, std::size_t first);

}  // namespace millrace::openai
