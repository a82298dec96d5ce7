#include "schemas/openai/tool_note.hpp"

#include <utility>

#include "schemas/openai/check_json.hpp"
#include "schemas/openai/request_json.hpp"

namespace millrace::openai {
namespace {

const json* member(const json* of, const char* name) {
  if (of == nullptr || !of->is_object()) return nullptr;
  const auto at = of->find(name);
  return at == of->end() ? nullptr : &*at;
}

json text_arguments(const json& function) {
  json names = json::array();
  const json* properties = member(member(&function, "parameters"), "properties");
  if (properties == nullptr || !properties->is_object()) return names;
  for (const auto& [name, schema] : properties->items()) {
    const json* type = member(&schema, "type");
    if (type != nullptr && *type == "string") names.push_back(name);
  }
  return names;
}

Json text(std::string value) {
  return {.value = std::move(value)};
}

// The tool as a request has it, without what the note leaves out.
Json tool_of(const std::string& name, const json& arguments) {
  JsonObject properties;
  for (const json& argument : arguments) {
    if (!argument.is_string()) continue;
    properties.push_back(
        {argument.get<std::string>(), {.value = JsonObject{{"type", text("string")}}}});
  }
  const JsonObject parameters = {{"properties", {.value = std::move(properties)}}};
  const JsonObject function = {{"name", text(name)}, {"parameters", {.value = parameters}}};
  return {.value = JsonObject{{"function", {.value = function}}}};
}

}  // namespace

std::string tools_note(const json& tools, std::size_t most_bytes) {
  json note = json::object();
  for (const json& tool : tools) {
    const json* function = member(&tool, "function");
    const json* name = member(function, "name");
    if (name == nullptr || !name->is_string()) continue;
    // Of two tools with one name the first one counts, as where the request is known.
    const auto& key = name->get_ref<const std::string&>();
    if (!note.contains(key)) note[key] = text_arguments(*function);
  }
  std::string written = note.dump();
  return written.size() <= most_bytes ? written : std::string(unnamed_tools);
}

std::optional<JsonList> tools_of_note(std::string_view note) {
  if (!check_json(note)) return std::nullopt;  // a job's metadata may have been written by anyone
  const json tools = json::parse(note, nullptr, false);
  if (!tools.is_object()) return std::nullopt;
  JsonList out;
  for (const auto& [name, arguments] : tools.items()) {
    if (arguments.is_array()) out.push_back(tool_of(name, arguments));
  }
  return out;
}

}  // namespace millrace::openai
