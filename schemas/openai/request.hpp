#pragma once
// Turns the body of a request to /v1/chat/completions or /v1/completions into jobs, one for each
// prompt. The jobs pass the checks that the broker makes (schemas/codec.hpp), so that a bad request
// is known before it is sent. Unknown fields stay in the jobs, whose results warn about them.
//
// The fields of a body are those of a job, which has the names of OpenAI, vLLM and llama.cpp
// (schemas/job_fields.hpp). The body alone has `stream`, `stream_options`, `echo`,
// `return_token_ids` and several prompts.
// Errors: those of check_json and decode_job; too_large. error_param (error_body.hpp) says which
// field is wrong. Thread safety: pure functions.
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "schemas/base/error.hpp"
#include "schemas/messages.hpp"
#include "schemas/openai/chat_answer.hpp"
#include "schemas/openai/endpoint.hpp"

namespace millrace::openai {

// The most prompts of one body.
inline constexpr std::size_t most_prompts = 2048;

struct RequestOptions {
  std::string id{};      // of the first job; before those of others come "1-of-", "2-of-" and so on
  std::string stream{};  // that the results are published on
  std::optional<std::int64_t> deadline_us{};
  // Of a job whose body gives none; the next prompt's job has the next one. None: the engine
  // derives it from the job, so that the same request gives the same text.
  std::optional<std::uint64_t> seed{};
  // For the metadata of the jobs, in place of what the body may say of them; empty: nothing.
  std::string traceparent{}, tracestate{};
  // The jobs tell their texts while they run also where the body asks for no stream, so that the
  // same request is the same job with and without one.
  bool always_partials = false;
};

struct RequestedJob {
  std::string id;  // empty: the broker derives one from the body
  Body body;       // the job, as `submit` takes it
  // The prompt, where the answer begins with it (AnswerForm::echo); else an empty text.
  Prompt echo;
};

struct Request {
  AnswerForm form;
  std::vector<RequestedJob> jobs;
  std::string model = "*";  // as the body names it
  ToolsOfChat tools;
  std::string user;                   // empty: none
  std::vector<std::string> warnings;  // about fields that were left out; each result has them too
};

Result<Request> parse_request(Endpoint endpoint, std::string_view body,
                              const RequestOptions& options);

}  // namespace millrace::openai
