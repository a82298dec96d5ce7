#include "broker/core/job_cost.hpp"

#include <algorithm>

#include "broker/core/overloaded.hpp"
#include "schemas/base/check_request.hpp"

namespace millrace::broker {
namespace {

constexpr std::uint64_t bytes_per_token = 4;      // of English text with the usual vocabularies
constexpr std::uint64_t open_chat_tokens = 1024;  // of a chat that gives no max_tokens

std::uint64_t prompt_tokens(const Prompt& prompt) {
  return std::visit(
      Overloaded{
          [](const std::string& text) -> std::uint64_t { return text.size() / bytes_per_token; },
          [](const Tokens& tokens) -> std::uint64_t { return tokens.size(); },
          [](const Chat& chat) -> std::uint64_t {
            std::uint64_t bytes = 0;
            for (const ChatMessage& message : chat) {
              if (message.content) bytes += message.content->size();
            }
            return bytes / bytes_per_token;
          },
      },
      prompt);
}

std::uint64_t generated_tokens(const GenerationRequest& request) {
  if (request.task != Task::generate) return 0;
  std::uint64_t most = request.max_tokens.value_or(default_max_tokens(request));
  if (most == 0) most = open_chat_tokens;
  return request.n * most;
}

}  // namespace

std::uint64_t job_cost_tokens(const Job& job) {
  const std::uint64_t prompt = prompt_tokens(job.request.prompt);
  return std::max<std::uint64_t>(prompt + generated_tokens(job.request), 1);
}

}  // namespace millrace::broker
