#pragma once
// Turns a request's prompt into token ids. The model's template renders a chat to text first.
// In a chat, a literal of a special token becomes that token where the template wrote it; in a
// message it is text, so that no content can end its own turn. In a text prompt, which may be a
// whole rendered chat, literals become tokens. The request's parse_special overrides both rules.
// Errors: empty_prompt, invalid_utf8, limit_exceeded, no_chat_template, template_error (also for a
// role that the template does not know), template_unsupported, context_exceeded (a rendered chat
// that is too long by its bytes). Thread safety: pure functions.
#include "engine/core/request/prepare.hpp"

namespace millrace::engine {

// Refuses a prompt that cannot fit the context by its size alone, before any work that grows with
// the prompt: the context's tokens stand for so many bytes at most. Error: context_exceeded.
Status check_prompt_size(const Prompt& prompt, const RequestContext& context);

Result<Tokens> encode_prompt(const GenerationRequest& request, const RequestContext& context);

}  // namespace millrace::engine
