#include "engine/core/request/encode_prompt.hpp"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "engine/core/request/call_arguments.hpp"
#include "schemas/base/limits.hpp"
#include "schemas/base/utf8.hpp"

namespace millrace::engine {
namespace {

// The time that strftime_now() gives a template, 2024-07-26: the same for all jobs, so that a
// prompt never changes. Llama 3's templates use this day where there is no clock.
constexpr std::int64_t template_day_s = 1'721'952'000;

std::string token_text(const Tokenizer& tokenizer, std::optional<TokenId> id) {
  return id ? std::string(tokenizer.token_bytes(*id)) : std::string();
}

bool utf8_valid(const Json& json);

bool utf8_valid(const JsonObject& object) {
  return std::ranges::all_of(object, [](const auto& member) {
    return millrace::utf8_valid(member.name) && utf8_valid(member.value);
  });
}
bool utf8_valid(const JsonList& list) {
  return std::ranges::all_of(list, [](const Json& one) { return utf8_valid(one); });
}
bool utf8_valid(const Json& json) {
  if (const auto* text = std::get_if<std::string>(&json.value)) return millrace::utf8_valid(*text);
  if (const auto* list = std::get_if<JsonList>(&json.value)) return utf8_valid(*list);
  if (const auto* object = std::get_if<JsonObject>(&json.value)) return utf8_valid(*object);
  return true;
}

Status check_message(const ChatMessage& message, std::size_t index) {
  const std::string field = "messages[" + std::to_string(index) + "]";
  if (!millrace::utf8_valid(message.role)) {
    return fail(Code::invalid_utf8, field + ".role is not valid UTF-8", "send text as UTF-8");
  }
  if (!millrace::utf8_valid(message.content.value_or(""))) {
    return fail(Code::invalid_utf8, field + ".content is not valid UTF-8", "send text as UTF-8");
  }
  if (!utf8_valid(message.more)) {
    return fail(Code::invalid_utf8, field + " has a field that is not valid UTF-8",
                "send text as UTF-8");
  }
  return {};
}

// The most bytes of a text that may fit the context.
std::uint64_t most_bytes(const RequestContext& context) {
  std::uint64_t bytes = 0;
  const bool none = __builtin_mul_overflow(std::uint64_t{context.context_tokens},
                                           context.tokenizer->reach().longest(), &bytes);
  return none ? UINT64_MAX : bytes;
}

std::unexpected<Error> too_long(const std::string& what, const RequestContext& context) {
  const TokenReach& reach = context.tokenizer->reach();
  return fail(Code::context_exceeded,
              what + "; no text of more than " + std::to_string(most_bytes(context)) + " bytes" +
                  (reach.whole() ? "" : " that need tokens") + " fits the model's context of " +
                  std::to_string(context.context_tokens) +
                  " tokens, because its longest token has " + std::to_string(reach.longest()) +
                  " bytes",
              "shorten the prompt");
}

// Refuses a text that cannot fit the context by its bytes.
Status check_bytes(const std::string& what, std::string_view text, const RequestContext& context) {
  const TokenReach& reach = context.tokenizer->reach();
  const std::uint64_t most = most_bytes(context);
  if (reach.covered(text, most) <= most) return {};
  return too_long(what + " has " + std::to_string(text.size()) + " bytes", context);
}

// The chat with "" as the content of each assistant's turn that has none; nothing where all have
// one.
std::optional<Chat> with_empty_contents(const Chat& chat) {
  Chat out = chat;
  bool changed = false;
  for (ChatMessage& message : out) {
    if (message.role != "assistant" || message.content) continue;
    message.content.emplace();
    changed = true;
  }
  if (!changed) return std::nullopt;
  return out;
}

// Renders the chat as it is, or in the first other form that the template takes. A turn that only
// calls tools has no content in OpenAI's form, which is `none` to a template. `none` comes first,
// because some templates tell it from an empty text, for which DeepSeek's distilled models get a
// turn more and RWKV's a line more; "" is for those that join contents with other texts and fail
// on `none`, such as SmolLM2's, Qwen3's and gpt-oss's. Arguments are in `call_arguments.hpp`.
Result<RenderedChat> render_chat(const ChatTemplate& chat_template, const Chat& chat,
                                 const TemplateVariables& variables, std::uint64_t most) {
  auto rendered = chat_template.render(chat, variables, most);
  if (rendered || rendered.error().code != Code::template_error) return rendered;
  const auto with_texts = with_text_arguments(chat);
  const auto with_contents = with_empty_contents(chat);
  const auto with_both = with_contents ? with_text_arguments(*with_contents) : std::nullopt;
  for (const auto* form : {&with_texts, &with_contents, &with_both}) {
    if (!*form) continue;
    if (auto other = chat_template.render(**form, variables, most)) return other;
  }
  return rendered;
}

// With `in_messages`, literals of special tokens in messages become those tokens, too.
Result<Tokens> encode_chat(const Chat& chat, const ChatInputs& inputs, bool in_messages,
                           const RequestContext& context) {
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
  if (!utf8_valid(inputs.tools) || !utf8_valid(inputs.template_kwargs)) {
    return fail(Code::invalid_utf8, "tools or chat_template_kwargs are not valid UTF-8",
                "send text as UTF-8");
  }
  const Result<ChatTemplate>& chat_template = *context.chat_template;
  if (!chat_template) return fail(chat_template.error());
  TemplateVariables variables;
  variables.bos_token = token_text(*context.tokenizer, context.tokenizer->bos());
  variables.eos_token = token_text(*context.tokenizer, context.tokenizer->eos());
  variables.now_s = template_day_s;
  variables.inputs = &inputs;
  // Where tokens leave bytes out, only the whole text tells.
  const bool whole = context.tokenizer->reach().whole();
  const std::uint64_t most = whole ? most_bytes(context) : UINT64_MAX;
  const auto rendered = render_chat(*chat_template, chat, variables, most);
  if (!rendered && rendered.error().code == Code::context_exceeded)
    return too_long(rendered.error().message, context);
  if (!rendered) return fail(rendered.error());
  MILLRACE_TRY(check_bytes("the rendered chat", rendered->text, context));
  TokenizeOptions options;  // adds no BOS and EOS: the template writes them
  options.parse_special = true;
  if (!in_messages) options.plain = rendered->from_messages;
  return context.tokenizer->tokenize(rendered->text, options);
}

}  // namespace

Status check_prompt_size(const Prompt& prompt, const RequestContext& context) {
  if (const auto* text = std::get_if<std::string>(&prompt)) {
    return check_bytes("the prompt", *text, context);
  }
  const auto* ids = std::get_if<Tokens>(&prompt);
  if (ids == nullptr || ids->size() <= context.context_tokens) return {};
  return fail(Code::context_exceeded,
              "the prompt has " + std::to_string(ids->size()) +
                  " tokens, the model's context has " + std::to_string(context.context_tokens),
              "shorten the prompt");
}

Result<Tokens> encode_prompt(const GenerationRequest& request, const RequestContext& context) {
  if (const auto* ids = std::get_if<Tokens>(&request.prompt)) return *ids;
  if (const auto* chat = std::get_if<Chat>(&request.prompt)) {
    return encode_chat(*chat, request.chat, request.parse_special.value_or(false), context);
  }
  const auto& text = std::get<std::string>(request.prompt);
  if (!millrace::utf8_valid(text)) {
    return fail(Code::invalid_utf8, "the prompt is not valid UTF-8", "send text as UTF-8");
  }
  TokenizeOptions options;
  options.add_special_tokens = request.add_special_tokens;
  options.parse_special = request.parse_special.value_or(true);
  return context.tokenizer->tokenize(text, options);
}

}  // namespace millrace::engine
