// Reads any bytes as a chat template, and renders a chat with it under small limits. The outcome
// must be a text or an error, within the limits, and the same each time.
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
  const Chat chat = {{"system", "Be brief."}, {"user", "H\xc3\xa9?\n"}, {"assistant", ""}};
  TemplateVariables variables;
  variables.bos_token = "<s>";
  variables.eos_token = "</s>";
  const auto text = parsed->render(chat, variables);
  if (text && text->size() > limits.output_bytes) std::abort();
  const auto again = parsed->render(chat, variables);
  if (text.has_value() != again.has_value() || (text && *text != *again)) std::abort();
  return 0;
}
