#pragma once
// The vocabulary that the wire and the engine share: what is asked of a model and what came of it.
// Plain values without behaviour; names and defaults are OpenAI's where one exists.
// request_fields.hpp declares how requests are written. Logprobs are natural logarithms. Thread
// safety: plain values.
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
  float typical_p = 1.0f;             // 1 is off; in (0, 1]
  float xtc_probability = 0.0f;       // 0 is off; in [0, 1]
  float xtc_threshold = 0.1f;         // in [0, 0.5]
  std::optional<std::uint64_t> seed;  // absent: see derived_seed in schemas/codec.hpp
  friend bool operator==(const Sampling&, const Sampling&) = default;
};

enum class PenaltyScope : std::uint8_t { all, output };  // of prompt and output, or output alone

// Counts tokens among the last `window` of its scope; 0: among all of them.
struct Penalty {
  float value = 0.0f;
  PenaltyScope scope = PenaltyScope::output;
  std::uint32_t window = 0;
  friend bool operator==(const Penalty&, const Penalty&) = default;
};

struct LogitBias {
  TokenId token = 0;
  float bias = 0.0f;
  friend bool operator==(const LogitBias&, const LogitBias&) = default;
};

// Lowers what would go on repeating: a token that extends a repeat of L tokens loses
// multiplier * base^(L - allowed_length). A repeat never reaches over a breaker.
struct Dry {
  float multiplier = 0.0f;  // 0 is off
  float base = 1.75f;
  std::uint32_t allowed_length = 2;
  std::uint32_t window = 1024;  // looks back over so many tokens of prompt and output
  std::vector<std::string> breakers = {"\n", ":", "\"", "*"};
  Tokens breaker_ids;  // beside those that the strings end with
  friend bool operator==(const Dry&, const Dry&) = default;
};

// What is done to logits before a draw, in this order: bias, repetition (a positive logit is
// divided, another multiplied), presence (subtracted once), frequency (subtracted count times),
// DRY, no-repeat n-gram, allowed ids, bad words.
struct LogitEdits {
  std::vector<LogitBias> bias;                     // each token once
  Penalty repetition{1.0f, PenaltyScope::all, 0};  // 1 is off
  Penalty presence, frequency;                     // 0 is off
  Dry dry;
  std::uint32_t no_repeat_ngram = 0;   // no n-gram of so many tokens twice; 0 is off
  Tokens allowed;                      // only these are drawn; empty: all
  std::vector<std::string> bad_words;  // texts that must not appear, as they are tokenized
  std::vector<Tokens> bad_word_ids;    // sequences whose last token must not complete them
  friend bool operator==(const LogitEdits&, const LogitEdits&) = default;
  bool any() const {  // whether anything is edited
    return !bias.empty() || repetition.value != 1.0f || presence.value != 0.0f ||
           frequency.value != 0.0f || dry.multiplier != 0.0f || no_repeat_ngram > 0 ||
           !allowed.empty() || !bad_words.empty() || !bad_word_ids.empty();
  }
};

struct Stops {
  std::vector<std::string> strings;  // none may be empty
  Tokens token_ids;
  bool ignore_eos = false;
  std::vector<Tokens> sequences{};  // of token ids, each as a whole; none may be empty
  bool include = false;             // leave what stopped it in the text
  friend bool operator==(const Stops&, const Stops&) = default;
};

// A part of the text that is told apart from the answer by a marker before and behind it.
enum class MarkedPart : std::uint8_t { reasoning, tool_call };
struct Marker {
  MarkedPart part = MarkedPart::reasoning;
  std::string open;
  std::string close;  // empty: the part goes on to the end of the text
  friend bool operator==(const Marker&, const Marker&) = default;
};
struct MarkerRequest {
  bool known = false;  // those that the model's vocabulary shows it to write
  std::vector<Marker> list;
  bool any() const { return known || !list.empty(); }
  friend bool operator==(const MarkerRequest&, const MarkerRequest&) = default;
};

// Ends a text that goes round in circles: when its last tokens are one pattern of min_pattern_size
// to max_pattern_size tokens, min_count times in a row.
struct RepetitionDetection {
  std::uint32_t max_pattern_size = 0;  // 0 is off
  std::uint32_t min_pattern_size = 1;
  std::uint32_t min_count = 2;
  friend bool operator==(const RepetitionDetection&, const RepetitionDetection&) = default;
};

enum class LogprobMode : std::uint8_t { raw, processed };

struct LogprobRequest {
  bool sampled = false;   // logprob of each sampled token
  std::uint32_t top = 0;  // and of the `top` likeliest tokens, 0 to limits::top_logprobs
  bool prompt = false;    // the prompt's tokens as well; always true for Task::score
  LogprobMode mode = LogprobMode::raw;
  Tokens listed{};  // and of these tokens, at most limits::listed_logprobs, each once
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
  LogitEdits edits;
  Stops stops;
  MarkerRequest markers;
  RepetitionDetection repetition_detection;
  LogprobRequest logprobs;
  bool partials = false;  // give text and tokens as they come as well; no part of the result
  std::optional<std::string> kv;                   // KV policy wanted, e.g. "f16"
  std::optional<std::string> require_fingerprint;  // refuse an engine with another one
  friend bool operator==(const GenerationRequest&, const GenerationRequest&) = default;
};

enum class FinishReason : std::uint8_t { stop, length, cancelled, error, repetition };

struct ListedLogprobs {
  Tokens ids;                   // as the request listed them
  std::vector<float> logprobs;  // one for each of them at each position
  friend bool operator==(const ListedLogprobs&, const ListedLogprobs&) = default;
};

// Logprobs of consecutive positions. `token` has one entry a position, the two others `top` each,
// likeliest first. NaN where none applies (the first prompt token), -infinity allowed.
struct TokenLogprobs {
  std::uint32_t top = 0;
  std::vector<float> token;
  Tokens top_ids;
  std::vector<float> top_logprobs;
  std::optional<ListedLogprobs> listed{};
  friend bool operator==(const TokenLogprobs&, const TokenLogprobs&) = default;
};

struct Choice {
  std::uint32_t index = 0;
  std::string text;
  Tokens tokens;  // all sampled tokens, a stopping one included
  FinishReason finish_reason = FinishReason::stop;
  // What stopped it: a string of `Stops::strings`, a token id (of the job's, or end of text), or a
  // sequence of `Stops::sequences`.
  std::optional<std::string> stop_string;
  std::optional<TokenId> stop_token;
  std::optional<Tokens> stop_sequence{};
  std::optional<TokenLogprobs> logprobs{};  // as many positions as `tokens`
  // What stood between markers, without them; `text` is the rest. Absent, empty: nothing did.
  std::optional<std::string> reasoning{};
  std::vector<std::string> tool_calls{};  // each as it was written
  friend bool operator==(const Choice&, const Choice&) = default;
};

// What a choice has gained since the Partial before. All Partials of a choice that ended joined are
// its tokens, text, reasoning and tool calls.
struct Partial {
  std::uint32_t choice = 0;
  std::uint32_t first_token = 0;  // tokens before these: tells where one was missed
  Tokens tokens;
  std::string text, reasoning;          // what can no longer become a stop or a marker
  std::vector<std::string> tool_calls;  // those that are whole now
  friend bool operator==(const Partial&, const Partial&) = default;
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

// What every result says of the engine that made it.
struct EngineFacts {
  std::string model;              // its id, the name that jobs give
  std::string fingerprint;        // equal fingerprints give equal bits for equal jobs; hex
  std::string math;               // "exact" or "fast"
  std::string kv_policy;          // as it was given or chosen, for example "k5v3"
  std::string kv;                 // the policy by layer, for example "f16/f16 x2, r5/r3 x28"
  double kv_bytes_per_token = 0;  // of all layers' keys and values
  double kv_compression = 0;      // f16's bytes over these; 1 for f16 itself
  std::uint32_t context_tokens = 0;
  friend bool operator==(const EngineFacts&, const EngineFacts&) = default;
};

// What an engine says of itself to the broker, which shows it in its status.
struct EngineProfile {
  EngineFacts facts;
  std::string label;       // what the model's file calls itself, for people
  std::string layer_path;  // for people: in how many launches the layers run, and why
  // The KV policies it answers to: its own as it was given or chosen, by layer, and under other
  // names that come to the same there. A job that names a policy goes to an engine with one that
  // means the same.
  std::vector<std::string> kv_policies;
  friend bool operator==(const EngineProfile&, const EngineProfile&) = default;
};

// What was really used, so that a dataset can be made again.
struct EffectiveSettings {
  EngineFacts engine;
  std::uint32_t max_tokens = 0;
  Sampling sampling;            // the seed is always present
  LogitEdits edits;             // with the token ids that bad words and breakers became
  std::vector<Marker> markers;  // those that the text was taken apart by
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
