#pragma once
// A job's end becomes one output line. OpenAI's batch shape for every line:
//   {"id", "custom_id", "response": {"status_code", "request_id", "body"}, "error"}
// A job that came as chat gets a chat.completion body, one that came as completion a
// text_completion body, each with a `millrace` object: effective settings, token ids, attempts,
// warnings, times. A plain job gets the result map of schemas/README.md as JSON in `body`.
// A failed line has the error twice: as OpenAI's body, and in `error` with code, message, hint and,
// for lines of a file, the line number. Logprobs that do not exist (NaN) and -infinity are null.
// Thread safety: pure functions.
#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "client/lines/parse_line.hpp"
#include "schemas/job.hpp"

namespace millrace::client {

struct ResultLineOptions {
  // The bytes of a token, for logprobs in OpenAI's shape. Absent, or for ids it does not know, the
  // token reads "token_id:N" and its bytes are null.
  std::function<std::optional<std::string>(TokenId)> token_bytes;
};

// Both end with a newline. `line` is the input's line number, 0 where there is none.
std::string result_line(const JobResult& result, std::uint64_t line,
                        const ResultLineOptions& options);
// A line that never became a job.
std::string bad_line(const ParsedLine& parsed);

// What a job of this stream gave meanwhile, for `millrace results --partial`. Ends with a newline.
std::string partial_line(const std::string& stream, const PartialEntry& entry);

// The job's result as schemas/README.md has it, in JSON, without a newline.
std::string result_json(const JobResult& result, const ResultLineOptions& options);

Shape shape_of(const JobResult& result);

}  // namespace millrace::client
