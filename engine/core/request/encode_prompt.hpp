#pragma once
// A request's prompt as token ids: text by the tokenizer, a chat through the model's template.
// Literals of special tokens count as those tokens, in text and in rendered chats alike, as in the
// reference stacks: a message's content can end its own turn, so who passes on text of strangers
// strips them first. Errors: empty_prompt, invalid_utf8, limit_exceeded, no_chat_template,
// template_error (also a role that the template does not know), template_unsupported.
// Thread safety: a pure function.
#include "engine/core/request/prepare.hpp"

namespace millrace::engine {

Result<Tokens> encode_prompt(const GenerationRequest& request, const RequestContext& context);

}  // namespace millrace::engine
