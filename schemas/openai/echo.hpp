#pragma once
// Answers of /v1/completions that begin with their prompt (AnswerForm::echo).
// Thread safety: pure functions.
#include <string>
#include <vector>

#include "schemas/base/generation.hpp"
#include "schemas/openai/logprobs.hpp"

namespace millrace::openai {

// The prompt's text. Of token ids, as far as their texts are known.
std::string echo_text(const Prompt& prompt, const TokenTexts& texts);

// The choices of a result with the prompt before their texts, and with `logprobs` its tokens and
// logprobs before theirs where the result has both. A job that only scored its prompt has one
// choice. Token ids that are told are the result's own, without the prompt's.
std::vector<Choice> echoed(const GenerationResult& result, const std::string& prompt,
                           bool logprobs);

}  // namespace millrace::openai
