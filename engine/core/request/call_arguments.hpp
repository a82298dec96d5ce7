#pragma once
// The arguments of the tool calls in a chat's messages, in the form that its template takes. Most
// templates write an object as JSON; some (DeepSeek) join a text that is JSON already with others,
// which fails for an object. Thread safety: pure function.
#include <optional>

#include "schemas/base/generation.hpp"

namespace millrace::engine {

// The chat with each call's arguments that are an object as JSON in a text; nothing where none are.
std::optional<Chat> with_text_arguments(const Chat& chat);

}  // namespace millrace::engine
