#pragma once
// Turns a request's max_reasoning_tokens into the tokens that end its reasoning: those of the
// closing marker, and in gpt-oss's format those that end the message and begin the answer's.
// Error: invalid_value, where nothing is known that sets reasoning apart and ends it.
// Thread safety: pure functions.
#include <cstdint>

#include "engine/core/stop/stop_machine.hpp"
#include "engine/core/tokenizer/tokenizer.hpp"
#include "schemas/base/error.hpp"

namespace millrace::engine {

// Puts the limit into rules that have their markers, min_tokens and stop tokens.
Status add_reasoning_limit(std::uint32_t tokens, const Tokenizer& tokenizer, StopRules& rules);

}  // namespace millrace::engine
