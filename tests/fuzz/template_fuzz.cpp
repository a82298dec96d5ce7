// Reads any bytes as a chat template, and renders a chat with it under small limits. The outcome
// must be a text or an error, within the limits, and the same each time. The spans that came from
// messages lie in the text, in order and apart.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "engine/core/template/chat_template.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace millrace;
  TemplateLimits limits;
  limits.steps = 20'000;
  limits.memory_bytes = 4 << 20;
  limits.output_bytes = 1 << 18;
  const std::string_view source(reinterpret_cast<const char*>(data), size);
  const auto parsed = ChatTemplate::parse(source, limits);
  if (!parsed) return 0;
  const JsonObject call = {{"name", {"f"}}, {"arguments", {JsonObject{{"x", {0.5}}}}}};
  const Chat chat = {{"system", "Be brief."},
                     {"user", "H\xc3\xa9?\n", {}, {"H\xc3\xa9", "?\n"}},
                     {"assistant", std::nullopt, {{"tool_calls", {JsonList{{call}, {}}}}}},
                     {"tool", "", {{"tool_call_id", {std::int64_t{1}}}}}};
  ChatInputs inputs;
  inputs.tools = {{JsonObject{{"function", {call}}}}};
  inputs.template_kwargs = {{"enable_thinking", {false}}, {"x", {JsonList{{"a"}, {true}}}}};
  TemplateVariables variables;
  variables.bos_token = "<s>";
  variables.eos_token = "</s>";
  variables.inputs = &inputs;
  const auto rendered = parsed->render(chat, variables);
  const auto again = parsed->render(chat, variables);
  if (rendered.has_value() != again.has_value()) std::abort();
  if (!rendered) return 0;
  if (rendered->text.size() > limits.output_bytes) std::abort();
  if (rendered->text != again->text) std::abort();
  if (rendered->from_messages != again->from_messages) std::abort();
  const TextSpan* before = nullptr;
  for (const TextSpan& span : rendered->from_messages) {
    if (span.begin >= span.end || span.end > rendered->text.size()) std::abort();
    if (before != nullptr && span.begin <= before->end) std::abort();
    before = &span;
  }
  return 0;
}
