#include "schemas/openai/tool_forms.hpp"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "schemas/base/json_writer.hpp"
#include "schemas/base/limits.hpp"
#include "schemas/openai/check_json.hpp"
#include "schemas/openai/tool_text.hpp"

namespace millrace::openai {
namespace {

using Calls = std::vector<ToolCall>;

const Json* member(const Json* of, std::string_view name) {
  const auto* object = of == nullptr ? nullptr : std::get_if<JsonObject>(&of->value);
  if (object == nullptr) return nullptr;
  const auto at = std::ranges::find(*object, name, &JsonMember::name);
  return at == object->end() ? nullptr : &at->value;
}

bool is_text(const Json* value, std::string_view wanted) {
  const auto* text = value == nullptr ? nullptr : std::get_if<std::string>(&value->value);
  return text != nullptr && *text == wanted;
}

// Returns the function's description; null: there is no such tool.
const Json* find_tool(const JsonList& tools, std::string_view name) {
  for (const Json& tool : tools) {
    const Json* function = member(&tool, "function");
    if (is_text(member(function, "name"), name)) return function;
  }
  return nullptr;
}

// Whether the tool's JSON Schema says that this argument is a text. Unknown tools and arguments are
// not said to be.
bool is_text_argument(const JsonList& tools, std::string_view tool, std::string_view argument) {
  const Json* parameters = member(find_tool(tools, tool), "parameters");
  return is_text(member(member(member(parameters, "properties"), argument), "type"), "string");
}

// Writes an argument that stands as plain text: JSON as it is, anything else as a text.
void write_argument(JsonWriter& json, std::string_view name, std::string_view value, bool is_text) {
  json.key(name);
  if (!is_text && check_json(trimmed(value))) {
    json.raw(trimmed(value));
  } else {
    json.value(value);
  }
}

// Adds a call whose arguments are complete; false where they are not safe to build.
bool add(Calls& calls, std::string_view name, std::string_view arguments) {
  std::optional<std::string> object = json_object(arguments);
  if (!object || !is_tool_name(name)) return false;
  calls.push_back({std::string(name), std::move(*object)});
  return true;
}

constexpr std::string_view text_mark = "<|\"|>";

// Rewrites a value of bare_key_call as JSON; false where it has another form.
bool write_bare_key_value(JsonWriter& json, std::string_view& text, std::size_t depth) {
  if (depth > limits::message_depth) return false;
  if (take(text, text_mark)) {
    const auto value = take_until(text, text_mark);
    if (value) json.value(*value);
    return value.has_value();
  }
  const bool object = take(text, "{");
  if (!object && !take(text, "[")) {
    const std::string_view value = trimmed(text.substr(0, text.find_first_of(",}]")));
    text.remove_prefix(std::min(text.find_first_of(",}]"), text.size()));
    if (!check_json(value)) return false;
    json.raw(value);
    return true;
  }
  const std::string_view end = object ? "}" : "]";
  object ? json.begin_object() : json.begin_array();
  for (bool first = true; !take(text, end); first = false) {
    if (!first && !take(text, ",")) return false;
    if (object) {
      if (take(text, text_mark)) {
        const auto key = take_until(text, text_mark);
        if (!key || !take(text, ":")) return false;
        json.key(*key);
      } else {
        const auto key = take_until(text, ":");
        if (!key) return false;
        json.key(trimmed(*key));
      }
    }
    if (!write_bare_key_value(json, text, depth + 1)) return false;
  }
  object ? json.end_object() : json.end_array();
  return true;
}

// Without the one line end on each side that the form puts around a value.
std::string_view inside_lines(std::string_view value) {
  if (value.starts_with('\n')) value.remove_prefix(1);
  if (value.ends_with('\n')) value.remove_suffix(1);
  return value;
}

}  // namespace

std::vector<ToolCall> named_calls(std::string_view text) {
  Calls calls;
  while (!trimmed(text).empty()) {
    if (!calls.empty() && !take(text, "[TOOL_CALLS]")) return {};
    const std::string_view name = take_name(text);
    if (take(text, "[CALL_ID]")) take_name(text);
    take(text, "[ARGS]");
    const auto arguments = take_json(text);
    if (!arguments || !add(calls, name, *arguments)) return {};
  }
  return calls;
}

std::vector<ToolCall> python_call(std::string_view text) {
  const auto callee = take_until(text, ".call(");
  if (!callee) return {};
  std::string arguments;
  JsonWriter json(arguments);
  json.begin_object();
  for (bool first = true; !take(text, ")"); first = false) {
    if (!first && !take(text, ",")) return {};
    const std::string_view name = take_name(text);
    if (!take(text, "=")) return {};
    const auto value = take_argument(text);
    if (!value) return {};
    json.key(name).raw(*value);
  }
  json.end_object();
  Calls calls;
  if (!trimmed(text).empty() || !add(calls, trimmed(*callee), arguments)) return {};
  return calls;
}

std::vector<ToolCall> function_tags(std::string_view text, const JsonList& tools) {
  Calls calls;
  while (take(text, "<function=")) {
    const auto name = take_until(text, ">");
    if (!name) return {};
    std::string arguments;
    JsonWriter json(arguments);
    json.begin_object();
    while (take(text, "<parameter=")) {
      const auto key = take_until(text, ">");
      const auto value = take_until(text, "</parameter>");
      if (!key || !value) return {};
      write_argument(json, *key, inside_lines(*value), is_text_argument(tools, *name, *key));
    }
    json.end_object();
    if (!take(text, "</function>") || !add(calls, *name, arguments)) return {};
  }
  return trimmed(text).empty() ? calls : Calls();
}

std::vector<ToolCall> argument_tags(std::string_view text, const JsonList& tools) {
  const std::string_view name = take_name(text);
  std::string arguments;
  JsonWriter json(arguments);
  json.begin_object();
  while (take(text, "<arg_key>")) {
    const auto key = take_until(text, "</arg_key>");
    if (!key || !take(text, "<arg_value>")) return {};
    const auto value = take_until(text, "</arg_value>");
    if (!value) return {};
    write_argument(json, trimmed(*key), *value, is_text_argument(tools, name, trimmed(*key)));
  }
  json.end_object();
  Calls calls;
  if (!trimmed(text).empty() || !add(calls, name, arguments)) return {};
  // A word without arguments is a call only of a tool that there is.
  return arguments != "{}" || find_tool(tools, name) != nullptr ? calls : Calls();
}

std::vector<ToolCall> bare_key_call(std::string_view text) {
  if (!take(text, "call:")) return {};
  const std::string_view name = trimmed(text.substr(0, text.find('{')));
  text.remove_prefix(std::min(text.find('{'), text.size()));
  std::string arguments;
  JsonWriter json(arguments);
  Calls calls;
  if (!write_bare_key_value(json, text, 0) || !trimmed(text).empty() ||
      !add(calls, name, arguments)) {
    return {};
  }
  return calls;
}

std::vector<ToolCall> separated_calls(std::string_view text) {
  constexpr std::string_view begin = "<｜tool▁call▁begin｜>", separator = "<｜tool▁sep｜>",
                             end = "<｜tool▁call▁end｜>";
  Calls calls;
  while (take(text, begin)) {
    std::string_view name;
    const auto before = take_until(text, separator);
    auto arguments = take_until(text, end);
    if (!before || !arguments) return {};
    name = trimmed(*before);
    if (arguments->contains("```")) {  // before V3.1
      name = trimmed(*take_until(*arguments, "```"));
      take(*arguments, "json");
      const auto code = take_until(*arguments, "```");
      if (!code || !trimmed(*arguments).empty()) return {};
      arguments = code;
    }
    if (!add(calls, name, trimmed(*arguments))) return {};
  }
  return trimmed(text).empty() ? calls : Calls();
}

std::vector<ToolCall> channel_call(std::string_view text) {
  const auto header = take_until(text, "<|message|>");
  if (!header) return {};
  std::string_view recipient = *header;
  if (!take_until(recipient, "to=")) return {};
  std::string_view name = take_name(recipient);
  if (name.starts_with("functions.")) name.remove_prefix(std::string_view("functions.").size());
  Calls calls;
  if (!add(calls, name, trimmed(text))) return {};
  return calls;
}

}  // namespace millrace::openai
