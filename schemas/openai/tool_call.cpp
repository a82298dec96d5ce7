#include "schemas/openai/tool_call.hpp"

#include <array>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "schemas/base/hash.hpp"
#include "schemas/openai/check_json.hpp"
#include "schemas/openai/tool_forms.hpp"
#include "schemas/openai/tool_text.hpp"

namespace millrace::openai {
namespace {

using json = nlohmann::ordered_json;
using Calls = std::vector<ToolCall>;

// Reads {"name", "arguments"}, in which `parameters` may stand for `arguments`, and OpenAI's own
// form, {"type": "function", "function": {...}}. Arguments may be an object, or one as a text.
bool add_object(const json& value, bool with_arguments, Calls& calls) {
  if (!value.is_object()) return false;
  const auto function = value.find("function");
  if (function != value.end() && function->is_object()) {
    return add_object(*function, with_arguments, calls);
  }
  const auto name = value.find("name");
  if (name == value.end() || !name->is_string()) return false;
  auto arguments = value.find("arguments");
  if (arguments == value.end()) arguments = value.find("parameters");
  ToolCall call{name->get<std::string>(), "{}"};
  if (!is_tool_name(call.name)) return false;
  if (arguments == value.end() || arguments->is_null()) {
    if (with_arguments) return false;
  } else if (arguments->is_string()) {
    auto object = json_object(arguments->get_ref<const std::string&>());
    if (!object) return false;
    call.arguments = std::move(*object);
  } else if (arguments->is_object()) {
    call.arguments = arguments->dump();
  } else {
    return false;
  }
  calls.push_back(std::move(call));
  return true;
}

// Reads objects, or arrays of them, one after the other.
Calls json_calls(std::string_view text, bool with_arguments) {
  Calls calls;
  while (!trimmed(text).empty()) {
    if (!calls.empty() && !take(text, ";") && !take(text, ",")) take(text, "[TOOL_CALLS]");
    const auto part = take_json(text);
    if (!part || !check_json(*part)) return {};
    const json value = json::parse(*part, nullptr, false);
    if (!value.is_array()) {
      if (!add_object(value, with_arguments, calls)) return {};
      continue;
    }
    for (const json& item : value) {
      if (!add_object(item, with_arguments, calls)) return {};
    }
    if (value.empty()) return {};
  }
  return calls;
}

}  // namespace

std::vector<ToolCall> parse_tool_calls(std::string_view text, const JsonList& tools) {
  text = trimmed(text);
  if (text.starts_with('{') || text.starts_with('[')) return json_calls(text, false);
  if (text.starts_with("<function=")) return function_tags(text, tools);
  if (text.starts_with("call:")) return bare_key_call(text);
  if (text.starts_with("<｜tool▁call▁begin｜>")) return separated_calls(text);
  if (text.contains("<|message|>")) return channel_call(text);
  for (const auto form : {named_calls, python_call}) {
    if (Calls calls = form(text); !calls.empty()) return calls;
  }
  return argument_tags(text, tools);
}

std::vector<ToolCall> parse_bare_tool_calls(std::string_view text) {
  text = trimmed(text);
  return text.starts_with('{') ? json_calls(text, true) : Calls();
}

bool may_be_bare_tool_call(std::string_view begin) {
  const std::string_view text = trimmed(begin);
  return text.empty() || text.starts_with('{');
}

std::string tool_call_id(std::string_view job, std::uint32_t choice, std::size_t number) {
  constexpr std::string_view letters =
      "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
  std::uint64_t hash =
      hash64(std::string(job) + "/" + std::to_string(choice) + "/" + std::to_string(number));
  std::string out;
  for (int i = 0; i < 9; ++i, hash /= letters.size()) out += letters[hash % letters.size()];
  return out;
}

}  // namespace millrace::openai
