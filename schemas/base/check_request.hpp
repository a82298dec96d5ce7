#pragma once
// Checks a request's values, the same for the wire and for the engine: each field against its entry
// in request_fields.hpp, then the rules between fields. The engine checks what needs a model: token
// ids against its vocabulary, lengths against its context.
// Errors: invalid_value, limit_exceeded, invalid_utf8, empty_prompt; each names the field, the
// value and what is allowed. Thread safety: pure functions.
#include "schemas/base/error.hpp"
#include "schemas/base/generation.hpp"

namespace millrace {

// The most tokens of an answer where the request names no number: 16 for a text or tokens, as in
// OpenAI's API; 0, which means the rest of the context, for a chat.
std::uint32_t default_max_tokens(const GenerationRequest& request);

Status check_request(const GenerationRequest& request);

// Refuses a given field about special tokens, parse_special or add_special_tokens, beside a prompt
// for which it has no meaning: token ids are taken as they are, and a chat template writes BOS.
Status check_special_field(const GenerationRequest& request, std::string_view field);

}  // namespace millrace
