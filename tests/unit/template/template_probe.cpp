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

using nlohmann::json;
using namespace millrace;

Result<RenderedChat> render(const json& request) {
  TemplateLimits limits;
  limits.steps = request.value("steps", limits.steps);
  limits.output_bytes = request.value("output_bytes", limits.output_bytes);
  limits.memory_bytes = request.value("memory_bytes", limits.memory_bytes);
  MILLRACE_ASSIGN(const ChatTemplate parsed,
                  ChatTemplate::parse(request.at("template").get<std::string>(), limits));
  Chat chat;
  for (const json& message : request.at("messages"))
    chat.push_back({message.at("role"), message.at("content")});
  TemplateVariables variables;
  variables.bos_token = request.value("bos_token", "<s>");
  variables.eos_token = request.value("eos_token", "</s>");
  variables.add_generation_prompt = request.value("add_generation_prompt", true);
  variables.now_s = request.value("now_s", std::int64_t{0});
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
