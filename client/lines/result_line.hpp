#pragma once
// Writes the end of a job as one output line. Every line has OpenAI's batch shape:
//   {"id", "custom_id", "response": {"status_code", "request_id", "body"}, "error"}
// A job that came as a chat gets a chat.completion body, one that came as a completion a
// text_completion body, each with all details (schemas/openai/response.hpp). A plain job gets the
// result map of schemas/README.md as JSON in `body`.
// A failed line carries the error twice: as OpenAI's body, and in `error` with code, message, hint
// and, for lines of a file, the line number. Logprobs that do not exist (NaN) and -infinity are
// null.
// Thread safety: pure functions.
#include <cstdint>
#include <string>

#include "client/lines/parse_line.hpp"
#include "schemas/job.hpp"
#include "schemas/openai/logprobs.hpp"
#include "schemas/openai/request.hpp"

namespace millrace::client {

struct ResultLineOptions {
  openai::TokenLookup token_bytes;           // for logprobs in OpenAI's shape
  const openai::Request* request = nullptr;  // of a line whose answer begins with its prompt
};

// Both lines end with a newline. `line` is the input's line number, 0 if there is none.
std::string result_line(const JobResult& result, std::uint64_t line,
                        const ResultLineOptions& options);
// A line that never became a job.
std::string bad_line(const ParsedLine& parsed);

// Writes text that a running job of this stream has generated, for `millrace results --partial`.
// Ends with a newline.
std::string partial_line(const std::string& stream, const PartialEntry& entry);

// Returns the result map of schemas/README.md as JSON, without a newline.
std::string result_json(const JobResult& result);

}  // namespace millrace::client
