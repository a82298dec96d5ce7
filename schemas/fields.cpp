#include "schemas/fields.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <string>

#include "schemas/base/check_sampling.hpp"
#include "schemas/base/check_stops.hpp"
#include "schemas/base/kv_policy.hpp"
#include "schemas/base/number_text.hpp"

namespace millrace {
namespace {

constexpr JobField yes(std::string_view name, std::string_view about) {
  return {name, true, neutral_null, about};
}
constexpr JobField no(std::string_view name, std::uint32_t neutral, std::string_view about) {
  return {name, false, neutral, about};
}

// Sorted by name; a static_assert below holds it.
constexpr auto table = std::to_array<JobField>({
    no("adapter", neutral_empty, "null or empty"),
    no("add_generation_prompt", neutral_true, "true"),
    yes("add_special_tokens", "false for no BOS before a text prompt where the model says so"),
    yes("allowed_token_ids",
        "only these token ids are drawn: up to 65536, each below the size of the vocabulary"),
    no("audio", neutral_null, "null"),
    yes("bad_word_ids", "token sequences that must not appear: up to 1024, each of 1 to 64 ids"),
    yes("bad_words",
        "texts that must not appear, as they are tokenized: up to 1024, each up to 1024 bytes"),
    yes("batch", "the batch this job is counted in, up to 256 bytes"),
    no("best_of", neutral_one, "1"),
    no("chat_template", neutral_null, "null: the model file's own is used"),
    no("chat_template_kwargs", neutral_empty, "{}"),
    no("continue_final_message", neutral_false, "false"),
    yes("custom_id", "a label, echoed in the result, up to 256 bytes"),
    yes("deadline_us", "a Unix time in microseconds to come; not ended by then, the job expires"),
    yes("dry_allowed_length", "DRY: the shortest repeat that costs something, 1 to 64 tokens"),
    yes("dry_base", "DRY: and times this for each token more, 1 to 10"),
    yes("dry_multiplier", "DRY: what a repeat of the allowed length costs, 0 to 100; 0 is off"),
    yes("dry_penalty_last_n", "DRY: tokens looked back over, 1 to 4096"),
    yes("dry_sequence_breakers",
        "DRY: texts that no repeat reaches over: up to 64, each up to 1024 bytes"),
    no("early_stopping", neutral_false, "false"),
    no("echo", neutral_false, "false"),
    yes("frequency_penalty", "subtracted once for each time a token is there, -2 to 2; 0 is off"),
    yes("frequency_penalty_scope", "where it counts: prompt+output or output"),
    yes("frequency_penalty_window", "last tokens of the scope that count, up to 1048576; 0: all"),
    no("function_call", neutral_none_or_auto, "none or auto"),
    no("functions", neutral_empty, "[]"),
    no("grammar", neutral_empty, "empty"),
    no("guided_choice", neutral_empty, "null or []"),
    no("guided_grammar", neutral_empty, "null or empty"),
    no("guided_json", neutral_null, "null"),
    no("guided_regex", neutral_empty, "null or empty"),
    yes("id",
        "the job's id, chosen by the producer, up to 256 bytes; leave it out for one made of the "
        "body"),
    yes("ignore_eos", "true to go on after an end-of-text token"),
    yes("include_stop_str_in_output", "true to leave what stopped it in the text"),
    yes("kv", "KV policy wanted, or what a result's effective.kv says, up to 16384 bytes"),
    no("length_penalty", neutral_one, "1"),
    yes("logit_bias",
        "added to the logits of token ids: up to 1024 of them, each bias -100 to 100"),
    no("logits_processors", neutral_empty, "null or []"),
    yes("logprob_mode", "use raw or processed; a prompt's logprobs are always raw"),
    yes("logprob_token_ids",
        "logprobs of these token ids as well, at each position: up to 128, each below the size of "
        "the vocabulary"),
    yes("logprobs",
        "true: of sampled tokens; a number up to 128: of that many likeliest ones as well"),
    yes("markers", "what sets reasoning and tool calls apart: none, auto, or a list of up to 16"),
    yes("max_attempts", "engine deaths while running alone before the job is given up: 1 to 100"),
    yes("max_completion_tokens",
        "another name of max_tokens: from 1; n x max_tokens may be 1048576"),
    yes("max_tokens",
        "most tokens to sample, from 1, n times this up to 1048576; leave it out for 16, in a chat "
        "for the rest of the context"),
    yes("messages", "a chat: an array of {role, content}"),
    yes("metadata", "strings by name, echoed in the result: 64 entries and 16 KiB at most"),
    yes("min_p",
        "keep tokens of at least this share of the likeliest one's probability, 0 to 1; 0 is off"),
    yes("min_tokens", "no stop before so many tokens; 0 to max_tokens"),
    no("min_tokens_to_keep", neutral_one, "1"),
    no("mirostat", neutral_zero, "0"),
    no("modalities", neutral_text, "[\"text\"]"),
    yes("model", "the model's name; * is any"),
    yes("n", "how many answers: 1 to 128"),
    yes("no_repeat_ngram_size", "no sequence of so many tokens twice, up to 64; 0 is off"),
    no("parallel_tool_calls", neutral_any, "any: there are no tools"),
    yes("partials", "true for text and tokens as they come as well, for who watches the stream"),
    no("prediction", neutral_any, "any: it only hints at speed"),
    yes("presence_penalty", "subtracted once where a token is there, -2 to 2; 0 is off"),
    yes("presence_penalty_scope", "where it counts: prompt+output or output"),
    yes("presence_penalty_window", "last tokens of the scope that count, up to 1048576; 0: all"),
    yes("priority", "0 (served first) to 4"),
    yes("prompt", "text, or token ids as an array, each below the size of the vocabulary"),
    no("prompt_cache_key", neutral_any, "any: prefixes are found without it"),
    no("prompt_cache_retention", neutral_any, "any"),
    yes("prompt_logprobs",
        "true for logprobs of the prompt's tokens, always raw; how many likeliest ones is "
        "top_logprobs"),
    no("reasoning_effort", neutral_null, "null"),
    yes("repeat_penalty", "another name of repetition_penalty: 0.1 to 10; 1 is off"),
    yes("repetition_detection",
        "end a text whose last tokens repeat one pattern: max_pattern_size 1 to 1024, "
        "min_pattern_size 1 to max_pattern_size, min_count 2 to 1024"),
    yes("repetition_penalty",
        "divides positive logits of tokens that are there, multiplies others, 0.1 to 10; 1 is off"),
    yes("repetition_penalty_scope", "where it counts: prompt+output or output"),
    yes("repetition_penalty_window", "last tokens of the scope that count, up to 1048576; 0: all"),
    yes("require_fingerprint", "refuse an engine with another numeric fingerprint"),
    no("response_format", neutral_text, "{\"type\": \"text\"}"),
    no("safety_identifier", neutral_any, "any"),
    yes("seed",
        "a number from 0 to 18446744073709551615; leave it out for one from a hash of the job"),
    no("service_tier", neutral_any, "any"),
    no("skip_special_tokens", neutral_true, "true"),
    no("spaces_between_special_tokens", neutral_true, "true"),
    yes("stop", "a string or up to 64, each up to 1024 bytes, that end the text"),
    yes("stop_token_ids",
        "token ids that end the text: up to 1024, each below the size of the vocabulary"),
    yes("stop_token_sequences",
        "sequences of token ids that end the text: up to 256, each of 1 to 64 ids"),
    no("store", neutral_any, "any: results are kept in their stream"),
    yes("stream",
        "the result stream's name, up to 256 bytes (false, OpenAI's default, is neutral)"),
    no("stream_options", neutral_any, "any: see partials"),
    yes("strict", "true to refuse unknown fields instead of warning"),
    no("structured_outputs", neutral_empty, "null or {}"),
    no("suffix", neutral_empty, "null or empty"),
    yes("task", "use generate or score"),
    yes("temperature", "0 (greedy) to 100"),
    yes("tokens",
        "the prompt as token ids, each below the size of the vocabulary: bin of uint32, or an "
        "array"),
    no("tool_choice", neutral_none_or_auto, "none or auto"),
    no("tools", neutral_empty, "[]"),
    yes("top_k", "keep the k likeliest tokens, up to 4294967295; 0 is off"),
    yes("top_logprobs", "of so many likeliest tokens at each position, 0 to 128"),
    yes("top_p", "keep the likeliest tokens up to this probability, above 0 and up to 1; 1 is off"),
    no("truncate_prompt_tokens", neutral_null, "null"),
    yes("typical_p",
        "keep the most typical tokens up to this probability, above 0 and up to 1; 1 is off"),
    no("use_beam_search", neutral_false, "false"),
    no("user", neutral_any, "any"),
    no("verbosity", neutral_null, "null"),
    no("web_search_options", neutral_null, "null"),
    yes("xtc_probability", "how often the likeliest tokens but one are left out, 0 to 1; 0 is off"),
    yes("xtc_threshold",
        "the probability from which XTC leaves tokens out, 0 to 0.5; from 1e-6 where "
        "xtc_probability is above 0"),
});
constexpr bool by_name(const JobField& a, const JobField& b) {
  return a.name < b.name;
}
static_assert(std::is_sorted(table.begin(), table.end(), by_name));

std::unexpected<Error> bad(std::string_view field, const std::string& what, std::string hint = {}) {
  return fail(Code::invalid_value, std::string(field) + ": " + what, std::move(hint));
}
std::unexpected<Error> over(std::string_view field, const std::string& what, std::uint64_t limit) {
  return fail(Code::limit_exceeded,
              std::string(field) + ": " + what + "; the limit is " + std::to_string(limit));
}

Status check_text(std::string_view field, std::string_view value, bool required,
                  std::uint64_t most_bytes = limits::id_bytes) {
  if (required && value.empty()) return bad(field, "must not be empty");
  if (value.size() > most_bytes) {
    return over(field, std::to_string(value.size()) + " bytes", most_bytes);
  }
  for (const char c : value) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7F) {
      return bad(field, "holds a control character");
    }
  }
  return {};
}

// An effective policy of 1,024 layers, as many as a model may have, each unlike the one before.
constexpr std::uint64_t kv_bytes = 16 * limits::KiB;

Status check_kv(const std::string& kv) {
  MILLRACE_TRY(check_text("kv", kv, true, kv_bytes));
  if (const auto known = canonical_kv(kv); !known) {
    return bad("kv", known.error().message, known.error().hint);
  }
  return {};
}

Status check_range(std::string_view field, float value, float least, float most) {
  if (std::isfinite(value) && value >= least && value <= most) return {};
  return bad(field, number_text(value) + " is not between " + number_text(least) + " and " +
                        number_text(most));
}

Status check_queue(const Job& job) {
  MILLRACE_TRY(check_text("id", job.id, false));
  MILLRACE_TRY(check_text("custom_id", job.custom_id, false));
  MILLRACE_TRY(check_text("model", job.model, true));
  MILLRACE_TRY(check_text("stream", job.stream, true));
  MILLRACE_TRY(check_text("batch", job.batch, false));
  if (job.priority >= limits::priority_count) {
    return bad("priority", std::to_string(job.priority) + " is not between 0 and " +
                               std::to_string(limits::priority_count - 1));
  }
  if (job.deadline_us && *job.deadline_us <= 0) {
    return bad("deadline_us",
               std::to_string(*job.deadline_us) + " is not a Unix time in microseconds");
  }
  if (job.max_attempts == 0) {
    return bad("max_attempts", "0 is not between 1 and " + std::to_string(limits::max_attempts));
  }
  if (job.max_attempts > limits::max_attempts) {
    return over("max_attempts", std::to_string(job.max_attempts), limits::max_attempts);
  }
  if (job.metadata.size() > limits::metadata_entries) {
    return over("metadata", std::to_string(job.metadata.size()) + " entries",
                limits::metadata_entries);
  }
  std::size_t bytes = 0;
  for (const auto& [key, value] : job.metadata) bytes += key.size() + value.size();
  if (bytes > limits::metadata_bytes) {
    return over("metadata", std::to_string(bytes) + " bytes", limits::metadata_bytes);
  }
  return {};
}

Status check_prompt(const Prompt& prompt) {
  if (const auto* tokens = std::get_if<Tokens>(&prompt)) {
    if (tokens->empty()) {
      return fail(Code::empty_prompt, "the prompt holds no token", "give at least one token");
    }
  } else if (const auto* chat = std::get_if<Chat>(&prompt)) {
    if (chat->empty()) {
      return fail(Code::empty_prompt, "messages: the chat holds no message",
                  "give at least one message");
    }
    if (chat->size() > limits::chat_messages) {
      return over("messages", std::to_string(chat->size()) + " messages", limits::chat_messages);
    }
    for (const ChatMessage& message : *chat) {
      MILLRACE_TRY(check_text("messages.role", message.role, true));
    }
  }
  return {};
}

Status check_counts(const GenerationRequest& request) {
  if (request.n == 0) return bad("n", "0 is not between 1 and " + std::to_string(limits::n));
  if (request.n > limits::n) return over("n", std::to_string(request.n), limits::n);
  const bool chat = std::holds_alternative<Chat>(request.prompt);
  // The rest of a context is not known here; the engine holds it against its own limits.
  const std::uint64_t most = request.max_tokens.value_or(chat ? 0 : 16);
  if (request.max_tokens == 0u && request.task == Task::generate) {
    return bad("max_tokens", "0 is not between 1 and " + std::to_string(limits::job_tokens),
               "to score a given text use task \"score\"");
  }
  if (request.n * most > limits::job_tokens) {
    return over("max_tokens", "n x max_tokens is " + std::to_string(request.n * most),
                limits::job_tokens);
  }
  if (request.min_tokens > limits::job_tokens) {
    return over("min_tokens", std::to_string(request.min_tokens), limits::job_tokens);
  }
  if (request.min_tokens > most && (request.max_tokens || !chat)) {
    return bad("min_tokens", std::to_string(request.min_tokens) + " is more than max_tokens, " +
                                 std::to_string(most));
  }
  return {};
}

Status check_sampling(const Sampling& s) {
  MILLRACE_TRY(check_range("temperature", s.temperature, 0, limits::temperature));
  MILLRACE_TRY(check_range("top_p", s.top_p, 0, 1));
  if (s.top_p == 0) {
    return bad("top_p", "0 is not above 0 and up to 1", "for greedy ask for temperature 0");
  }
  MILLRACE_TRY(check_range("min_p", s.min_p, 0, 1));
  return check_filters(s);
}

Status check_logprobs(const GenerationRequest& request) {
  const LogprobRequest& wanted = request.logprobs;
  if (wanted.top > limits::top_logprobs) {
    return over("top_logprobs", std::to_string(wanted.top), limits::top_logprobs);
  }
  MILLRACE_TRY(check_listed(wanted.listed));
  if (!wanted.listed.empty() && !wanted.sampled && !wanted.prompt) {
    return bad("logprob_token_ids", "needs logprobs or prompt_logprobs", "add \"logprobs\": true");
  }
  if (wanted.top > 0 && !wanted.sampled && !wanted.prompt) {
    return bad("top_logprobs", "needs logprobs or prompt_logprobs", "add \"logprobs\": true");
  }
  return {};
}

// A score job samples nothing, so whatever would shape sampling is a mistake worth telling.
Status check_score(const GenerationRequest& request) {
  const char* hint = "leave it out, or use task \"generate\"";
  if (request.n != 1) return bad("n", "has no meaning for a score job", hint);
  if (request.max_tokens.value_or(0) != 0) {
    return bad("max_tokens", "has no meaning for a score job", hint);
  }
  if (request.min_tokens != 0) return bad("min_tokens", "has no meaning for a score job", hint);
  if (!request.stops.strings.empty()) return bad("stop", "has no meaning for a score job", hint);
  if (!request.stops.token_ids.empty()) {
    return bad("stop_token_ids", "has no meaning for a score job", hint);
  }
  if (!request.stops.sequences.empty()) {
    return bad("stop_token_sequences", "has no meaning for a score job", hint);
  }
  if (request.markers.any()) return bad("markers", "has no meaning for a score job", hint);
  if (request.repetition_detection != RepetitionDetection{}) {
    return bad("repetition_detection", "has no meaning for a score job", hint);
  }
  if (request.edits.any()) {
    return bad("logit_bias, penalties, DRY, allowed_token_ids, bad_words or no_repeat_ngram_size",
               "have no meaning for a score job", hint);
  }
  if (request.logprobs.mode != LogprobMode::raw) {
    return bad("logprob_mode", "a score job gives raw logprobs only", hint);
  }
  if (!request.logprobs.prompt) return bad("prompt_logprobs", "a score job always gives them");
  return {};
}

}  // namespace

std::span<const JobField> job_fields() {
  return table;
}

const JobField* find_job_field(std::string_view name) {
  const JobField wanted{name, false, 0, {}};
  const auto at = std::lower_bound(table.begin(), table.end(), wanted, by_name);
  return at != table.end() && at->name == name ? &*at : nullptr;
}

Error with_hint(Error error) {
  if (!error.hint.empty()) return error;
  const std::string_view name =
      std::string_view(error.message)
          .substr(0, error.message.find_first_not_of("abcdefghijklmnopqrstuvwxyz_"));
  if (const JobField* field = find_job_field(name); field != nullptr) error.hint = field->about;
  return error;
}

Status check_job(const Job& job) {
  const GenerationRequest& request = job.request;
  MILLRACE_TRY(check_queue(job));
  MILLRACE_TRY(check_prompt(request.prompt));
  MILLRACE_TRY(check_counts(request));
  MILLRACE_TRY(check_sampling(request.sampling));
  MILLRACE_TRY(check_edits(request.edits));
  MILLRACE_TRY(check_stops(request.stops));
  MILLRACE_TRY(check_markers(request.markers));
  MILLRACE_TRY(check_repetition(request.repetition_detection));
  MILLRACE_TRY(check_logprobs(request));
  if (request.kv) MILLRACE_TRY(check_kv(*request.kv));
  if (request.require_fingerprint) {
    MILLRACE_TRY(check_text("require_fingerprint", *request.require_fingerprint, true));
  }
  if (request.task == Task::score) return check_score(request);
  return {};
}

}  // namespace millrace
