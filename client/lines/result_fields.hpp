#pragma once
// The parts that result lines are put together from. Thread safety: as JsonWriter.
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "client/lines/json_writer.hpp"
#include "schemas/job.hpp"

namespace millrace::client {

// What a token reads as, for logprobs in OpenAI's shape.
class TokenTexts {
 public:
  using Lookup = std::function<std::optional<std::string>(TokenId)>;
  explicit TokenTexts(const Lookup& bytes) : bytes_(bytes) {}
  std::optional<std::string> bytes(TokenId id) const;
  std::string text(TokenId id) const;  // "token_id:N" where the bytes are not known

 private:
  const Lookup& bytes_;
};

// The job's custom_id, or the id that its line gave in place of one; empty: the line has no label.
std::string label_of(const JobResult& result);

void write_ids(JsonWriter& json, const Tokens& tokens);
void write_usage(JsonWriter& json, const Usage& usage);
// The broker's and ours: unknown fields, a custom_id used before, another model than the job names.
std::vector<std::string> warnings_of(const JobResult& result);
// State, attempts, warnings, metadata and times of the queue, as members of the open object.
void write_queue_fields(JsonWriter& json, const JobResult& result);
// Fingerprint, effective settings and the engine's times, as members of the open object.
void write_engine_fields(JsonWriter& json, const GenerationResult& result);

// [{token, logprob, bytes, top_logprobs: [{token, logprob, bytes}]}], one a position; an empty
// top_logprobs where nothing comes before the token
void write_chat_logprobs(JsonWriter& json, const Tokens& tokens, const TokenLogprobs& logprobs,
                         const TokenTexts& texts);
// {tokens, token_logprobs, top_logprobs, text_offset}: one entry a position in each; with
// listed_logprobs where some were asked for, as in the two others
void write_completion_logprobs(JsonWriter& json, const Tokens& tokens,
                               const TokenLogprobs& logprobs, const TokenTexts& texts);
// {top, token, top_ids, top_logprobs}: flat arrays, `top` entries a position in the last two. A
// position that has none (a prompt's first token follows nothing) holds nulls in both.
void write_logprob_arrays(JsonWriter& json, const TokenLogprobs& logprobs);

}  // namespace millrace::client
