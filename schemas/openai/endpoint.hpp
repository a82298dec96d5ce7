#pragma once
// OpenAI's endpoints whose requests are jobs, and what a request's body asks of the answer and not
// of a job. Thread safety: plain values, pure functions.
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "schemas/job.hpp"

namespace millrace::openai {

enum class Endpoint : std::uint8_t { chat, completion };

constexpr std::string_view path_of(Endpoint endpoint) {
  return endpoint == Endpoint::chat ? "/v1/chat/completions" : "/v1/completions";
}
constexpr std::optional<Endpoint> endpoint_of(std::string_view path) {
  if (path == path_of(Endpoint::chat)) return Endpoint::chat;
  if (path == path_of(Endpoint::completion)) return Endpoint::completion;
  return std::nullopt;
}
// The endpoint whose body a job came in, as its note says (notes.hpp); nothing: a plain job.
std::optional<Endpoint> endpoint_of(const JobResult& result);

struct AnswerForm {
  Endpoint endpoint = Endpoint::chat;
  bool stream = false;         // as events while it is generated
  bool include_usage = false;  // a last event has the usage
  bool echo = false;           // each text begins with its prompt
  bool echo_logprobs = false;  // and its logprobs with those of the prompt
  bool token_ids = false;      // with the choices' token ids (vLLM's return_token_ids)
  std::uint32_t n = 1;         // choices of each prompt
  friend bool operator==(const AnswerForm&, const AnswerForm&) = default;
};

}  // namespace millrace::openai
