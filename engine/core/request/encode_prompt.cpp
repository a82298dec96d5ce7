#include "engine/core/request/encode_prompt.hpp"

#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <string_view>

#include "schemas/base/limits.hpp"
#include "schemas/base/utf8.hpp"

namespace millrace::engine {
namespace {

constexpr auto known_roles =
    std::to_array<std::string_view>({"system", "developer", "user", "assistant", "tool"});

std::string token_text(const Tokenizer& tokenizer, std::optional<TokenId> id) {
  return id ? std::string(tokenizer.token_bytes(*id)) : std::string();
}

Status check_message(const ChatMessage& message, std::size_t index) {
  const std::string field = "messages[" + std::to_string(index) + "]";
  if (std::find(known_roles.begin(), known_roles.end(), message.role) == known_roles.end()) {
    const bool printable = utf8_valid(message.role) && message.role.size() <= 64;
    return fail(Code::invalid_value,
                field + ".role \"" + (printable ? message.role : "?") + "\" is not known",
                "use system, developer, user, assistant or tool");
  }
  if (!utf8_valid(message.content)) {
    return fail(Code::invalid_utf8, field + ".content is not valid UTF-8", "send text as UTF-8");
  }
  return {};
}

Result<Tokens> encode_chat(const Chat& chat, const RequestContext& context) {
  if (chat.empty()) {
    return fail(Code::empty_prompt, "messages is empty", "give at least one message");
  }
  if (chat.size() > limits::chat_messages) {
    return fail(Code::limit_exceeded,
                "the chat has " + std::to_string(chat.size()) + " messages, the limit is " +
                    std::to_string(limits::chat_messages),
                "send a shorter chat");
  }
  for (std::size_t i = 0; i < chat.size(); ++i) MILLRACE_TRY(check_message(chat[i], i));
  const Result<ChatTemplate>& chat_template = *context.chat_template;
  if (!chat_template) return fail(chat_template.error());
  TemplateVariables variables;
  variables.bos_token = token_text(*context.tokenizer, context.tokenizer->bos());
  variables.eos_token = token_text(*context.tokenizer, context.tokenizer->eos());
  MILLRACE_ASSIGN(const std::string text, chat_template->render(chat, variables));
  TokenizeOptions options;  // the template writes the special tokens that it wants
  options.parse_special = true;
  return context.tokenizer->tokenize(text, options);
}

}  // namespace

Result<Tokens> encode_prompt(const GenerationRequest& request, const RequestContext& context) {
  if (const auto* ids = std::get_if<Tokens>(&request.prompt)) return *ids;
  if (const auto* chat = std::get_if<Chat>(&request.prompt)) return encode_chat(*chat, context);
  const auto& text = std::get<std::string>(request.prompt);
  if (!utf8_valid(text)) {
    return fail(Code::invalid_utf8, "the prompt is not valid UTF-8", "send text as UTF-8");
  }
  TokenizeOptions options;
  options.add_special_tokens = request.add_special_tokens;
  options.parse_special = true;
  return context.tokenizer->tokenize(text, options);
}

}  // namespace millrace::engine
