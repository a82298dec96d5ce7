#pragma once
// The vocabulary that the wire and the engine share: requests to a model and their results, as
// plain values. Names and defaults are OpenAI's where it has them. request_fields.hpp declares how
// requests are written. Logprobs are natural logarithms. Thread safety: plain values.
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "schemas/base/error.hpp"
#include "schemas/base/json_value.hpp"

namespace millrace {

using TokenId = std::uint32_t;
using Tokens = std::vector<TokenId>;

enum class Task : std::uint8_t { generate, score };

struct ChatMessage {
  std::string role;
  std::optional<std::string> content;  // the text; of text parts: all of them, joined
  JsonObject more{};                   // the other fields, such as tool_calls; none is null
  std::vector<std::string> parts{};    // the text parts, where the content is a list of them
  friend bool operator==(const ChatMessage&, const ChatMessage&) = default;
};
using Chat = std::vector<ChatMessage>;

// The text of a completion, token ids, or a chat that the model's template renders.
using Prompt = std::variant<std::string, Tokens, Chat>;

enum class ToolChoice : std::uint8_t { automatic, none };

// What the chat template sees beside the messages.
struct ChatInputs {
  JsonList tools;
  ToolChoice tool_choice = ToolChoice::automatic;  // none hides the tools from the template
  JsonObject template_kwargs;                      // variables of the template
  friend bool operator==(const ChatInputs&, const ChatInputs&) = default;
};

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

// Where the sampling fields that a job does not give come from: their defaults, or what the model's
// file suggests.
enum class SamplingSource : std::uint8_t { job, model };

// The sampling that a model's file suggests, under the names of a job's fields. Absent: the file
// says nothing about that field.
struct SuggestedSampling {
  std::optional<float> temperature{};
  std::optional<std::uint32_t> top_k{};
  std::optional<float> top_p{}, min_p{}, xtc_probability{}, xtc_threshold{}, repetition_penalty{};
  std::optional<std::uint32_t> repetition_penalty_window{};
  friend bool operator==(const SuggestedSampling&, const SuggestedSampling&) = default;
  bool any() const { return *this != SuggestedSampling(); }
};

enum class PenaltyScope : std::uint8_t { all, output };  // prompt and output, or output alone

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

// DRY lowers the logits of tokens that would continue a repetition: a token that extends a repeat
// of L tokens loses multiplier * base^(L - allowed_length). A repeat never crosses a breaker.
struct Dry {
  float multiplier = 0.0f;  // 0 is off
  float base = 1.75f;
  std::uint32_t allowed_length = 2;
  std::uint32_t window = 1024;  // tokens of prompt and output that it searches
  std::vector<std::string> breakers = {"\n", ":", "\"", "*"};
  Tokens breaker_ids;  // in addition to the last tokens of the strings
  friend bool operator==(const Dry&, const Dry&) = default;
};

// The edits of logits before a draw, in this order: bias, repetition (divides a positive logit,
// multiplies any other), presence (subtracted once), frequency (subtracted count times), DRY,
// no-repeat n-gram, allowed ids, bad words.
struct LogitEdits {
  std::vector<LogitBias> bias;                     // each token once
  Penalty repetition{1.0f, PenaltyScope::all, 0};  // 1 is off
  Penalty presence, frequency;                     // 0 is off
  Dry dry;
  std::uint32_t no_repeat_ngram = 0;   // no n-gram of this many tokens occurs twice; 0 is off
  Tokens allowed;                      // only these are drawn; empty: all
  std::vector<std::string> bad_words;  // texts that must not appear, as they are tokenized
  std::vector<Tokens> bad_word_ids;    // token sequences that must not appear
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
  bool include = false;             // keep the stop string or sequence in the text
  friend bool operator==(const Stops&, const Stops&) = default;
};

// A part of the text that markers before and after it separate from the answer. A channel's markers
// enclose a header, which says what the text after it is: a tool call if it names a recipient
// (to=...), else reasoning if it names the channel analysis, else answer.
enum class MarkedPart : std::uint8_t { reasoning, tool_call, channel };
struct Marker {
  MarkedPart part = MarkedPart::reasoning;
  std::string open;
  std::string close;      // empty: the part goes on to the end of the text
  bool at_start = false;  // counts only before the answer has begun
  friend bool operator==(const Marker&, const Marker&) = default;
};
// Which of the markers that the model is known to write count: none, those of reasoning and of
// channels, or all.
enum class KnownMarkers : std::uint8_t { none, reasoning, all };
struct MarkerRequest {
  std::optional<KnownMarkers> known;  // absent: see `list`
  std::vector<Marker> list;  // empty: KnownMarkers::reasoning for a chat, none for another prompt
  friend bool operator==(const MarkerRequest&, const MarkerRequest&) = default;
};

// Ends a text that repeats itself: when its last tokens are one pattern of min_pattern_size to
// max_pattern_size tokens, min_count times in a row.
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
  ChatInputs chat;                 // only for a chat
  bool add_special_tokens = true;  // put BOS before a text prompt where the model's file says so
  // Says whether a special token that is written out in the prompt becomes that token. Absent means
  // true for a text prompt and false for messages.
  std::optional<bool> parse_special;
  std::uint32_t n = 1;
  std::optional<std::uint32_t>
      max_tokens;  // absent: 16 for text and tokens, rest of context for chat
  std::uint32_t min_tokens = 0;
  SamplingSource sampling_source = SamplingSource::job;
  // With SamplingSource::model: the names of the sampling fields that the job gives itself, which
  // count before the model's. Otherwise empty.
  std::vector<std::string> given_sampling{};
  Sampling sampling;
  LogitEdits edits;
  Stops stops;
  MarkerRequest markers;
  std::optional<std::uint32_t> max_reasoning_tokens{};  // absent: no limit but max_tokens
  RepetitionDetection repetition_detection;
  LogprobRequest logprobs;
  bool partials = false;          // also send text and tokens while they are generated
  std::optional<std::string> kv;  // KV policy wanted, e.g. "f16"
  std::optional<std::string> require_fingerprint;  // fail on an engine with another one
  friend bool operator==(const GenerationRequest&, const GenerationRequest&) = default;
};

enum class FinishReason : std::uint8_t { stop, length, cancelled, error, repetition };

struct ListedLogprobs {
  Tokens ids;                   // as the request listed them
  std::vector<float> logprobs;  // one for each of them at each position
  friend bool operator==(const ListedLogprobs&, const ListedLogprobs&) = default;
};

// Logprobs of consecutive positions. `token` has one entry for each position; `top_ids` and
// `top_logprobs` have `top` entries for each, likeliest first. NaN where there is no logprob (the
// first prompt token); -infinity is allowed.
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
  // What stopped the text: a string of `Stops::strings`, a token id (the job's, or end of text), or
  // a sequence of `Stops::sequences`.
  std::optional<std::string> stop_string;
  std::optional<TokenId> stop_token;
  std::optional<Tokens> stop_sequence{};
  std::optional<TokenLogprobs> logprobs{};  // as many positions as `tokens`
  // The parts between markers, without the markers; `text` is the rest. Absent or empty: none.
  std::optional<std::string> reasoning{};
  std::vector<std::string> tool_calls{};  // each as it was written
  // The tokens of these parts, with their markers: pairs of the index of a first token and of the
  // one after the last. A token belongs to the part that holds its first byte.
  std::optional<Tokens> reasoning_spans{}, tool_call_spans{};
  friend bool operator==(const Choice&, const Choice&) = default;
};

// What a choice has gained since the previous Partial. All Partials of an ended choice, joined, are
// its tokens, text, reasoning and tool calls.
struct Partial {
  std::uint32_t choice = 0;
  std::uint32_t first_token = 0;  // number of tokens before these; shows a missing Partial
  Tokens tokens;
  std::string text, reasoning;          // text that can no longer become a stop or a marker
  std::vector<std::string> tool_calls;  // calls that are complete now
  friend bool operator==(const Partial&, const Partial&) = default;
};

struct Usage {
  std::uint32_t prompt_tokens = 0;
  std::uint32_t cached_tokens = 0;  // prompt tokens taken from the prefix tree
  std::uint32_t completion_tokens = 0;
  std::uint32_t reasoning_tokens = 0;  // of these, as Choice::reasoning_spans tells
  friend bool operator==(const Usage&, const Usage&) = default;
};

// Durations from one process's monotonic clock, in microseconds.
struct EngineTimes {
  std::uint64_t queue_us = 0;        // from the engine's acceptance to the first step
  std::uint64_t first_token_us = 0;  // from the acceptance to the first token
  std::uint64_t total_us = 0;        // from the acceptance to the end
  friend bool operator==(const EngineTimes&, const EngineTimes&) = default;
};

// The facts about its engine that every result repeats.
struct EngineFacts {
  std::string model;              // the model's id, the name that jobs give
  std::string fingerprint;        // equal fingerprints give equal bits for equal jobs; hex
  std::string math;               // "exact", "fast" or "int8"
  std::string kv_policy;          // the policy as given or chosen, for example "k5v3"
  std::string kv;                 // the policy by layer, for example "f16/f16 x2, r5/r3 x28"
  double kv_bytes_per_token = 0;  // bytes of the keys and values of all layers
  double kv_compression = 0;      // the bytes with f16 divided by these
  std::uint32_t context_tokens = 0;
  friend bool operator==(const EngineFacts&, const EngineFacts&) = default;
};

// How an engine describes itself to the broker, which shows it in its status.
struct EngineProfile {
  EngineFacts facts;
  std::string label;        // the name inside the model's file, for people
  std::string layer_path;   // for people: in how many launches the layers run, and why
  std::string kv_memory{};  // for people: what each cache group holds, if there are several
  // The KV policies that the engine answers to: its own as given or chosen, by layer, and under
  // other names that mean the same for this model. A job that names a policy goes to an engine that
  // announced an equal one.
  std::vector<std::string> kv_policies;
  SuggestedSampling suggested_sampling{};  // what a job gets that asks for the model's sampling
  std::string suggested_sampling_error{};  // why the file's cannot be used; empty: it can
  friend bool operator==(const EngineProfile&, const EngineProfile&) = default;
};

// The engine and the settings that were used, so that a dataset can be generated again.
struct EffectiveSettings {
  EngineFacts engine;
  std::uint32_t max_tokens = 0;
  Sampling sampling;            // the seed is always present
  LogitEdits edits;             // with the token ids of bad words and breakers
  std::vector<Marker> markers;  // the markers that split the text
  friend bool operator==(const EffectiveSettings&, const EffectiveSettings&) = default;
};

struct GenerationResult {
  std::vector<Choice> choices;   // n of them, by index; empty for Task::score
  std::optional<Tokens> prompt;  // the prompt's ids, where prompt logprobs were asked for
  std::optional<TokenLogprobs> prompt_logprobs;  // one position for each prompt token
  Usage usage;
  EngineTimes times;
  EffectiveSettings effective;
  friend bool operator==(const GenerationResult&, const GenerationResult&) = default;
};

}  // namespace millrace
