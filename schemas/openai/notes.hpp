#pragma once
// Metadata keys under which our notes go out with a job and come back in its result. Output leaves
// them out of the metadata that it repeats. Thread safety: constants.
#include <string_view>

namespace millrace::openai {

// The form of the body that the job came in, which decides the form of its result's body: "chat" or
// "completion". A plain job has no such note.
inline constexpr std::string_view shape_key = "millrace.shape";
// The model was shown tools, so that its answer may be a call; which ones (tool_note.hpp).
inline constexpr std::string_view tools_key = "millrace.tools";
// Of a job whose request has several prompts: how many, and their hash. So a request with other
// prompts under the same Idempotency-Key is in conflict, also where they begin with the same ones.
inline constexpr std::string_view prompts_key = "millrace.prompts";
inline constexpr std::string_view duplicate_key = "millrace.duplicate_of_line";
// The model that the line names, if the submitting command replaced it.
inline constexpr std::string_view model_key = "millrace.model";
// The line's id, if it is the line's only label and the job got another id.
inline constexpr std::string_view label_key = "millrace.label";

// Where a line is in its file, if its answer begins with the prompt, which no result has.
inline constexpr std::string_view echo_key = "millrace.echo";

}  // namespace millrace::openai
