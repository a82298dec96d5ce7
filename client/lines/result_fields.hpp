#pragma once
// Writes the parts of a result line. Thread safety: as JsonWriter.
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "client/lines/json_writer.hpp"
#include "schemas/job.hpp"

namespace millrace::client {

// The text of a token, for logprobs in OpenAI's shape.
class TokenTexts {
 public:
  using Lookup = std::function<std::optional<std::string>(TokenId)>;
  explicit TokenTexts(const Lookup& bytes) : bytes_(bytes) {}
  std::optional<std::string> bytes(TokenId id) const;
  std::string text(TokenId id) const;  // "token_id:N" if the bytes are not known

 private:
  const Lookup& bytes_;
};

// Returns the job's custom_id, or the id that its line gave instead; empty if it gave neither.
std::string label_of(const JobResult& result);

void write_ids(JsonWriter& json, const Tokens& tokens);
void write_usage(JsonWriter& json, const Usage& usage);
// Returns the broker's warnings (unknown fields) and the client's: a custom_id that was used
// before, another model than the job names.
std::vector<std::string> warnings_of(const JobResult& result);
// Writes state, attempts, warnings, metadata and the queue's times as members of the open object.
void write_queue_fields(JsonWriter& json, const JobResult& result);
// Writes fingerprint, effective settings and the engine's times as members of the open object.
void write_engine_fields(JsonWriter& json, const GenerationResult& result);

// The next three write logprobs. Each adds listed_logprobs if the job asked for some.
//
// [{token, logprob, bytes, top_logprobs: [{token, logprob, bytes}]}], one a position; top_logprobs
// is empty for a prompt's first token, which nothing precedes.
void write_chat_logprobs(JsonWriter& json, const Tokens& tokens, const TokenLogprobs& logprobs,
                         const TokenTexts& texts);
// {tokens, token_logprobs, top_logprobs, text_offset}, each with one entry a position.
void write_completion_logprobs(JsonWriter& json, const Tokens& tokens,
                               const TokenLogprobs& logprobs, const TokenTexts& texts);
// {top, token, top_ids, top_logprobs}: flat arrays with `top` entries a position in the last two,
// which are nulls for a prompt's first token.
void write_logprob_arrays(JsonWriter& json, const TokenLogprobs& logprobs);

}  // namespace millrace::client
