#pragma once
// A request's prompt as token ids: text by the tokenizer, a chat through the model's template.
// In a chat special tokens count where the template wrote them; a literal in a message is text, so
// that no content can end its own turn. In a text prompt, which may be a whole rendered chat,
// literals count. The request's parse_special overrides both. Errors: empty_prompt, invalid_utf8,
// limit_exceeded, no_chat_template, template_error (also a role that the template does not know),
// template_unsupported. Thread safety: a pure function.
#include "engine/core/request/prepare.hpp"

namespace millrace::engine {

Result<Tokens> encode_prompt(const GenerationRequest& request, const RequestContext& context);

}  // namespace millrace::engine
