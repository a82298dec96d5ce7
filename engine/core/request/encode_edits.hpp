#pragma once
// Adds the token ids of a request's bad words and sequence breakers. A bad word gives two
// sequences: its tokens alone and after a space. A breaker gives the last token of its text, alone
// and after a letter. Errors: limit_exceeded for a bad word with too many tokens.
// Thread safety: a pure function.
#include "engine/core/tokenizer/tokenizer.hpp"
#include "schemas/base/error.hpp"
#include "schemas/base/generation.hpp"

namespace millrace::engine {

Result<LogitEdits> encode_edits(const LogitEdits& edits, const Tokenizer& tokenizer);

}  // namespace millrace::engine
