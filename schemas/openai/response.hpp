#pragma once
// Writes results as the bodies of OpenAI's responses: chat.completion and text_completion. With
// details, which batch files have, a choice also says what stopped it, which tokens it has and
// which parts they belong to, and the body has a `millrace` object: effective settings, attempts,
// warnings, times. Reasoning is `message.reasoning_content` of a chat, under the name that chat
// templates read, and `reasoning` of a completion's choice. A chat's tool calls are parsed into
// `message.tool_calls`; the choice's own `tool_calls` holds them as they were written (details).
// Thread safety: pure functions.
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "schemas/job.hpp"
#include "schemas/openai/endpoint.hpp"
#include "schemas/openai/logprobs.hpp"
#include "schemas/openai/request.hpp"

namespace millrace::openai {

struct ResponseOptions {
  TokenLookup token_bytes{};  // for logprobs, and prompts of token ids that are echoed
  std::optional<std::int64_t> created_s{};  // Unix time; absent: when the first job ended
  bool details = false;
};

// "chatcmpl-JOB" or "cmpl-JOB".
std::string response_id(Endpoint endpoint, std::string_view job);

// The body for a job that has a result (JobResult::result).
std::string response_body(Endpoint endpoint, const JobResult& result,
                          const ResponseOptions& options);

// The body for all jobs of a request, in their order, each with a result. The choices of the second
// prompt follow those of the first, and so on; the usage is that of all together. Details are those
// of the first job.
std::string response_body(const Request& request, std::span<const JobResult> results,
                          const ResponseOptions& options);

}  // namespace millrace::openai
