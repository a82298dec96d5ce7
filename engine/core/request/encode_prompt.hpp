#pragma once
// A request's prompt as token ids: text by the tokenizer, a chat through the model's template.
// Literals of special tokens count as those tokens, in text and in rendered chats alike, as in the
// reference stacks. Errors: empty_prompt, invalid_utf8, invalid_value (a role nobody knows),
// limit_exceeded, no_chat_template, template_error, template_unsupported.
// Thread safety: a pure function.
#include "engine/core/request/prepare.hpp"

namespace millrace::engine {

Result<Tokens> encode_prompt(const GenerationRequest& request, const RequestContext& context);

}  // namespace millrace::engine
