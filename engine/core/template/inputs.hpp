#pragma once
// The variables that a chat gives to its template, as values: the messages with all their fields,
// the tools, and what the job adds. Texts stay in the chat, which must outlive the heap; every text
// and every key from the job is tainted, but for roles that are plain words.
// Thread safety: none; one rendering belongs to one thread.
#include <string_view>
#include <utility>
#include <vector>

#include "engine/core/template/chat_template.hpp"
#include "engine/core/template/context.hpp"

namespace millrace::chat_template {

using Variables = std::vector<std::pair<std::string_view, Value>>;

// With `parts`, a content that is a list of parts is shown as such; else as their joined text.
Result<Variables> input_variables(Context& context, const Chat& chat,
                                  const TemplateVariables& variables, bool parts);

}  // namespace millrace::chat_template
