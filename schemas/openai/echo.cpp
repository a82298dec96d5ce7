#include "schemas/openai/echo.hpp"

#include <variant>

#include "schemas/base/utf8.hpp"

namespace millrace::openai {
namespace {

template <class T>
void prepend(std::vector<T>& to, const std::vector<T>& first) {
  to.insert(to.begin(), first.begin(), first.end());
}

void prepend_logprobs(TokenLogprobs& to, const TokenLogprobs& first) {
  prepend(to.token, first.token);
  prepend(to.top_ids, first.top_ids);
  prepend(to.top_logprobs, first.top_logprobs);
  if (to.listed && first.listed) prepend(to.listed->logprobs, first.listed->logprobs);
}

}  // namespace

std::string echo_text(const Prompt& prompt, const TokenTexts& texts) {
  if (const auto* text = std::get_if<std::string>(&prompt)) return *text;
  std::string out;
  if (const auto* ids = std::get_if<Tokens>(&prompt)) {
    for (const TokenId id : *ids) out += texts.bytes(id).value_or(texts.text(id));
  }
  return utf8_replace_invalid(out);
}

std::vector<Choice> echoed(const GenerationResult& result, const std::string& prompt,
                           bool logprobs) {
  std::vector<Choice> choices = result.choices;
  if (choices.empty()) choices.emplace_back().finish_reason = FinishReason::length;
  for (Choice& choice : choices) {
    choice.text.insert(0, prompt);
    if (!logprobs || !result.prompt || !result.prompt_logprobs) continue;
    if (!choice.logprobs && !choice.tokens.empty()) continue;
    if (choice.logprobs) {
      prepend_logprobs(*choice.logprobs, *result.prompt_logprobs);
    } else {
      choice.logprobs = result.prompt_logprobs;
    }
    prepend(choice.tokens, *result.prompt);
  }
  return choices;
}

}  // namespace millrace::openai
