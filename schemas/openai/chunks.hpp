#pragma once
// Writes what a request's jobs tell while they run as the events of OpenAI's streams: objects
// chat.completion.chunk or text_completion. A chat's choice begins with its role; then come pieces
// of its text, and at last its finish_reason. After the last job comes the usage, if the request
// asks for it, in an event without choices. The last event has the warnings of the jobs, if there
// are any, as a whole answer has them (`millrace.warnings`). The caller ends with `[DONE]`.
//
// Tool calls come whole, each as soon as it is complete. A text that may be a call as a whole is
// held back until it is known what it is.
//
// Partials may be lost, and another attempt begins with the first token. So the end of a job
// completes what is missing, and nothing is sent twice. Partials have no logprobs: those of a
// choice come together in one event before its last one.
//
// A job that fails, or whose end contradicts what was sent, gives an error body (error_body.hpp) as
// the last event of all. Thread safety: one thread.
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "schemas/messages.hpp"
#include "schemas/openai/chunk_event.hpp"
#include "schemas/openai/request.hpp"
#include "schemas/openai/sent_text.hpp"

namespace millrace::openai {

struct ChunkOptions {
  TokenLookup token_bytes{};   // for logprobs, and prompts of token ids that are echoed
  std::int64_t created_s = 0;  // Unix time
  std::string model{};         // as the events name it; empty: as the request does
};

class Chunks {
 public:
  // `ids` are those of the request's jobs, which the broker's answer to `submit` tells.
  Chunks(const Request& request, std::span<const std::string> ids, ChunkOptions options);

  // Each returns the events' data, in their order. Entries of other jobs give none.
  std::vector<std::string> partial(const PartialEntry& entry);
  std::vector<std::string> end(const JobResult& result);
  // All jobs have ended, or one has failed: no more events come.
  bool ended() const { return failed_ || left_ == 0; }
  bool failed() const { return failed_; }

 private:
  struct ChoiceState {
    bool begun = false;
    bool lost = false;         // a partial of the current attempt
    std::size_t told = 0;      // tokens of the current attempt
    std::size_t sent = 0;      // tokens of all attempts
    SentText text, reasoning;  // the text with its echo
    SentText parts;            // tool calls as they were written, with a zero after each
    std::size_t calls = 0;     // tool calls that were sent
    std::optional<std::string> held =
        "";  // text that may be a call as a whole; none: it is no call
  };
  struct JobState {
    std::string id;
    std::uint32_t first_index = 0;  // of its choices
    std::string echo;
    std::uint32_t attempt = 0;  // of the newest partial
    bool ended = false;
    std::map<std::uint32_t, ChoiceState> choices;
  };
  using Events = std::vector<std::string>;

  ChoiceState& begun(JobState& job, std::uint32_t choice, Events& out);
  void add(const JobState& job, std::uint32_t choice, Delta delta, Events& out) const;
  void add_end(JobState& job, const Choice& choice, std::span<const TokenId> tokens,
               std::span<const std::string> warnings, Events& out);
  void begin_again(JobState& job) const;
  void add_text(const JobState& job, std::uint32_t choice, const Delta& delta, Events& out) const;
  void add_parts(const JobState& job, std::uint32_t choice, ChoiceState& state,
                 std::span<const std::string> parts, Events& out) const;
  void add_calls(const JobState& job, std::uint32_t choice, ChoiceState& state,
                 std::span<const ToolCall> calls, Events& out) const;
  void add_failure(const Error& error, Events& out);

  EventFacts facts_;
  ToolsOfChat tools_;
  TokenLookup token_bytes_;
  std::map<std::string, JobState, std::less<>> jobs_;
  std::size_t left_ = 0;  // jobs that have not ended
  Usage usage_;
  std::vector<std::string> warnings_;  // of the jobs that have ended
  bool failed_ = false;
};

}  // namespace millrace::openai
