#pragma once
// Turns an input line into a job. A line is in OpenAI's batch format (`custom_id`, `method`, `url`,
// `body`) for /v1/chat/completions or /v1/completions, or it is a plain job, which is the job map
// of schemas/README.md as JSON (token ids as arrays). schemas/openai/ maps the body.
//
// The job passes the checks that the broker makes (schemas/codec.hpp), so that a bad line is known
// before it is sent. Unknown fields stay in the job, and the result warns about them.
// Errors: those of decode_job and check_json; too_large. Thread safety: pure function.
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "client/lines/custom_ids.hpp"
#include "client/lines/line_reader.hpp"
#include "schemas/base/error.hpp"
#include "schemas/messages.hpp"
#include "schemas/openai/endpoint.hpp"

namespace millrace::client {

struct LineOptions {
  std::string id{};                    // of a job whose line gives none; may be empty
  std::optional<std::string> model{};  // replaces the line's
  std::string stream{}, batch{};       // of a job whose line names none
  std::optional<std::int64_t> not_before_us{}, deadline_us{};  // likewise
  std::optional<std::int64_t> latest_us{};  // a later deadline, or none, becomes this one
  bool own_queue = false;                   // ignore the line's id, stream and batch (`run`)
  bool strict = false;                      // refuse unknown fields
  bool echo = false;  // `echo` of completions is taken; the result is to be written with the
                      // request that echoed_request() finds (echoed_line.hpp)
  CustomIds* custom_ids = nullptr;  // if given, a repeated custom_id is noted in the job
};

struct ParsedLine {
  std::uint64_t number = 0;
  std::string id;                                  // of the job; the options' id if the line is bad
  std::string stream;                              // of the job; empty if the line is bad
  std::optional<std::string> custom_id;            // also of a bad line, if it could be read
  std::optional<openai::Endpoint> endpoint;        // whose body the line has; none: a plain job
  Body body;                                       // the job; empty if there is an error
  std::vector<std::string> warnings;               // the result will carry them too
  bool echo = false;                               // its answer begins with the prompt
  bool other_batch = false, other_stream = false;  // the line names another than the options
  std::optional<Error> error;
  bool error_in_body = false;  // of an OpenAI line: it is the request's, and the line is in order
};

ParsedLine parse_line(const InputLine& line, const LineOptions& options);

// Returns the line of a job that the broker refused, like a line that could not be parsed.
ParsedLine refused_line(std::uint64_t number, const Body& job, const Error& error);

}  // namespace millrace::client
