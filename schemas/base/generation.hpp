#pragma once
// The vocabulary that the wire and the engine share: what is asked of a model and what came of it.
// Plain values without behaviour; names and defaults are OpenAI's where one exists (DESIGN section
// 4). Logprobs are natural logarithms. Thread safety: plain values.
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "schemas/base/error.hpp"

namespace millrace {

using TokenId = std::uint32_t;
using Tokens = std::vector<TokenId>;

enum class Task : std::uint8_t { generate, score };

struct ChatMessage {
  std::string role;
  std::string content;
  friend bool operator==(const ChatMessage&, const ChatMessage&) = default;
};
using Chat = std::vector<ChatMessage>;

// Text of a completion, token ids as given, or a chat that the model's template renders.
using Prompt = std::variant<std::string, Tokens, Chat>;

struct Sampling {
  float temperature = 1.0f;           // 0 is greedy
  std::uint32_t top_k = 0;            // 0 is off
  float top_p = 1.0f;                 // 1 is off; in (0, 1]
  float min_p = 0.0f;                 // 0 is off; in [0, 1]
  std::optional<std::uint64_t> seed;  // absent: a hash of the job's canonical body and custom_id
  friend bool operator==(const Sampling&, const Sampling&) = default;
};

struct Stops {
  std::vector<std::string> strings;  // stripped from the text; none may be empty
  Tokens token_ids;
  bool ignore_eos = false;
  friend bool operator==(const Stops&, const Stops&) = default;
};

enum class LogprobMode : std::uint8_t { raw, processed };

struct LogprobRequest {
  bool sampled = false;   // logprob of each sampled token
  std::uint32_t top = 0;  // and of the `top` likeliest tokens, 0 to limits::top_logprobs
  bool prompt = false;    // the prompt's tokens as well; always true for Task::score
  LogprobMode mode = LogprobMode::raw;
  friend bool operator==(const LogprobRequest&, const LogprobRequest&) = default;
};

struct GenerationRequest {
  Task task = Task::generate;
  Prompt prompt;
  bool add_special_tokens = true;  // put BOS before a text prompt where the model's file says so
  std::uint32_t n = 1;
  std::optional<std::uint32_t>
      max_tokens;  // absent: 16 for text and tokens, rest of context for chat
  std::uint32_t min_tokens = 0;
  Sampling sampling;
  Stops stops;
  LogprobRequest logprobs;
  std::optional<std::string> kv;                   // KV policy wanted, e.g. "f16"
  std::optional<std::string> require_fingerprint;  // refuse an engine with another one
  friend bool operator==(const GenerationRequest&, const GenerationRequest&) = default;
};

enum class FinishReason : std::uint8_t { stop, length, cancelled, error };

// Logprobs of consecutive positions. `token` has one entry a position, the two others `top` each,
// likeliest first. NaN where none applies (the first prompt token), -infinity allowed.
struct TokenLogprobs {
  std::uint32_t top = 0;
  std::vector<float> token;
  Tokens top_ids;
  std::vector<float> top_logprobs;
  friend bool operator==(const TokenLogprobs&, const TokenLogprobs&) = default;
};

struct Choice {
  std::uint32_t index = 0;
  std::string text;
  Tokens tokens;  // all sampled tokens, a stopping one included
  FinishReason finish_reason = FinishReason::stop;
  // What stopped it: a string of `Stops::strings`, or a token id (of the job's, or end of text).
  std::optional<std::string> stop_string;
  std::optional<TokenId> stop_token;
  std::optional<TokenLogprobs> logprobs;  // as many positions as `tokens`
  friend bool operator==(const Choice&, const Choice&) = default;
};

struct Usage {
  std::uint32_t prompt_tokens = 0;
  std::uint32_t cached_tokens = 0;  // prompt tokens taken from the prefix tree
  std::uint32_t completion_tokens = 0;
  friend bool operator==(const Usage&, const Usage&) = default;
};

// Durations from one process's monotonic clock, in microseconds.
struct EngineTimes {
  std::uint64_t queue_us = 0;        // accepted by the engine to first step
  std::uint64_t first_token_us = 0;  // accepted to first token
  std::uint64_t total_us = 0;        // accepted to end
  friend bool operator==(const EngineTimes&, const EngineTimes&) = default;
};

// What was really used, so that a dataset can be made again.
struct EffectiveSettings {
  std::string model;        // the name the file gives itself
  std::string fingerprint;  // numeric fingerprint, DESIGN section 6, as hex
  std::string kv;           // policy per layer, e.g. "f16/f16 x30"
  std::string math;         // "exact" or "fast"
  Sampling sampling;        // seed always present
  std::uint32_t max_tokens = 0;
  friend bool operator==(const EffectiveSettings&, const EffectiveSettings&) = default;
};

struct GenerationResult {
  std::vector<Choice> choices;   // n of them, by index; empty for Task::score
  std::optional<Tokens> prompt;  // the prompt's ids, where prompt logprobs were asked
  std::optional<TokenLogprobs> prompt_logprobs;  // one position a prompt token
  Usage usage;
  EngineTimes times;
  EffectiveSettings effective;
  friend bool operator==(const GenerationResult&, const GenerationResult&) = default;
};

}  // namespace millrace
