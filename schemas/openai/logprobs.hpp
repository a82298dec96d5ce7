#pragma once
// Writes logprobs in the forms of OpenAI's endpoints, and as flat arrays. A logprob that does not
// exist (NaN) or is -infinity is null. Thread safety: as JsonWriter.
#include <functional>
#include <optional>
#include <string>

#include "schemas/base/generation.hpp"
#include "schemas/base/json_writer.hpp"

namespace millrace::openai {

// Returns the bytes of a token; nothing for one that it does not know.
using TokenLookup = std::function<std::optional<std::string>(TokenId)>;

// The text of a token, for logprobs in OpenAI's shape. A token that the lookup does not know (all,
// if it is empty) is "token_id:N" with null bytes. Keeps a reference to the lookup.
class TokenTexts {
 public:
  explicit TokenTexts(const TokenLookup& bytes) : bytes_(bytes) {}
  std::optional<std::string> bytes(TokenId id) const;
  std::string text(TokenId id) const;

 private:
  const TokenLookup& bytes_;
};

void write_ids(JsonWriter& json, const Tokens& tokens);

// Each of these adds listed_logprobs if the job asked for some.
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

}  // namespace millrace::openai
