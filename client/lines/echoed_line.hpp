#pragma once
// Lines whose answers begin with their prompts (`echo` of completions). No result has the prompt,
// so the job carries a note of where its line is, and who writes the answer reads the line again.
// Thread safety: pure functions.
#include <optional>
#include <string>

#include "client/lines/line_reader.hpp"
#include "schemas/job.hpp"
#include "schemas/openai/request.hpp"

namespace millrace::client {

// The value of openai::echo_key for the job of a line.
std::string place_note(const InputLine& line);

// The request of the line that a result is of, if its answer begins with the prompt. None also
// where the note is not of this file. Errors: those of File.
Result<std::optional<openai::Request>> echoed_request(File& input, const JobResult& result);

}  // namespace millrace::client
