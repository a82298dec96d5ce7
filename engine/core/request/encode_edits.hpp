#pragma once
// Turns the texts of a request's edits into token ids. A bad word is ruled out as it is tokenized
// by itself and behind a space; a breaker is the last token of its text, by itself and behind a
// letter. Errors: limit_exceeded, of a bad word with too many tokens. Thread safety: pure.
#include "engine/core/tokenizer/tokenizer.hpp"
#include "schemas/base/error.hpp"
#include "schemas/base/generation.hpp"

namespace millrace::engine {

Result<LogitEdits> encode_edits(const LogitEdits& edits, const Tokenizer& tokenizer);

}  // namespace millrace::engine
