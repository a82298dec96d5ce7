// Renders chat templates for the Python tests. It reads one JSON request per line from stdin and
// writes one JSON answer per line to stdout:
//   {"template", "messages", "add_generation_prompt", "bos_token", "eos_token", "now_s", "steps",
//    "output_bytes", "memory_bytes", "spans"}
//   -> {"text"}, with "spans" also {"from_messages"}, pairs of byte offsets; or
//      {"code", "message", "hint"}
#include <iostream>
#include <nlohmann/json.hpp>
#include <string>

#include "engine/core/template/chat_template.hpp"

namespace {

using json = nlohmann::ordered_json;
using namespace millrace;

Json value_of(const json& given);

JsonObject object_of(const json& given) {
  JsonObject out;
  for (const auto& [name, value] : given.items()) out.emplace_back(name, value_of(value));
  return out;
}

Json value_of(const json& given) {
  if (given.is_null()) return {};
  if (given.is_boolean()) return {given.get<bool>()};
  if (given.is_number_integer()) return {given.get<std::int64_t>()};
  if (given.is_number()) return {given.get<double>()};
  if (given.is_string()) return {given.get<std::string>()};
  if (given.is_object()) return {object_of(given)};
  JsonList list;
  for (const json& item : given) list.push_back(value_of(item));
  return {std::move(list)};
}

ChatMessage message_of(const json& given) {
  ChatMessage out;
  for (const auto& [name, value] : given.items()) {
    if (name == "role") {
      out.role = value;
    } else if (name != "content") {
      out.more.emplace_back(name, value_of(value));
    } else if (value.is_string()) {
      out.content = value.get<std::string>();
    } else if (value.is_array()) {
      out.content.emplace();
      for (const json& part : value)
        *out.content += out.parts.emplace_back(part.at("text").get<std::string>());
    }
  }
  return out;
}

Result<RenderedChat> render(const json& request) {
  TemplateLimits limits;
  limits.steps = request.value("steps", limits.steps);
  limits.output_bytes = request.value("output_bytes", limits.output_bytes);
  limits.memory_bytes = request.value("memory_bytes", limits.memory_bytes);
  MILLRACE_ASSIGN(const ChatTemplate parsed,
                  ChatTemplate::parse(request.at("template").get<std::string>(), limits));
  Chat chat;
  for (const json& message : request.at("messages")) chat.push_back(message_of(message));
  ChatInputs inputs;
  for (const json& tool : request.value("tools", json::array()))
    inputs.tools.push_back(value_of(tool));
  inputs.template_kwargs = object_of(request.value("kwargs", json::object()));
  TemplateVariables variables;
  variables.bos_token = request.value("bos_token", "<s>");
  variables.eos_token = request.value("eos_token", "</s>");
  variables.add_generation_prompt = request.value("add_generation_prompt", true);
  variables.now_s = request.value("now_s", std::int64_t{0});
  variables.inputs = &inputs;
  return parsed.render(chat, variables);
}

}  // namespace

int main() {
  for (std::string line; std::getline(std::cin, line);) {
    const json request = json::parse(line);
    const auto rendered = render(request);
    json answer;
    if (rendered) {
      answer["text"] = rendered->text;
      if (request.value("spans", false)) {
        answer["from_messages"] = json::array();
        for (const auto& [begin, end] : rendered->from_messages)
          answer["from_messages"].push_back({begin, end});
      }
    } else {
      answer["code"] = code_name(rendered.error().code);
      answer["message"] = rendered.error().message;
      answer["hint"] = rendered.error().hint;
    }
    std::cout << answer.dump() << '\n' << std::flush;
  }
  return 0;
}
