#include "engine/core/request/prepare.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <string>
#include <utility>

#include "engine/core/request/encode_edits.hpp"
#include "engine/core/request/encode_prompt.hpp"
#include "engine/core/request/markers.hpp"
#include "engine/core/scheduler/scheduler.hpp"
#include "schemas/base/check_sampling.hpp"
#include "schemas/base/check_stops.hpp"
#include "schemas/base/kv_policy.hpp"
#include "schemas/base/limits.hpp"
#include "schemas/base/number_text.hpp"

namespace millrace::engine {
namespace {

constexpr std::uint32_t default_max_tokens = 16;  // of completions, as OpenAI has it

Status check_count(const char* field, std::uint64_t value, std::uint64_t limit) {
  if (value <= limit) return {};
  return fail(Code::limit_exceeded,
              std::string(field) + " is " + std::to_string(value) + ", the limit is " +
                  std::to_string(limit),
              "lower it");
}

Status check_sampling(const Sampling& s) {
  if (!std::isfinite(s.temperature) || s.temperature < 0.0f) {
    return fail(Code::invalid_value, "temperature is " + number_text(s.temperature),
                "give a finite number from 0 (greedy) up");
  }
  if (s.temperature > limits::temperature) {
    return fail(Code::limit_exceeded,
                "temperature is " + number_text(s.temperature) + ", the limit is " +
                    number_text(limits::temperature),
                "lower it");
  }
  if (!(s.top_p > 0.0f && s.top_p <= 1.0f)) {
    return fail(Code::invalid_value, "top_p is " + number_text(s.top_p),
                "give a number above 0 and up to 1 (off)");
  }
  if (!(s.min_p >= 0.0f && s.min_p <= 1.0f)) {
    return fail(Code::invalid_value, "min_p is " + number_text(s.min_p),
                "give a number from 0 (off) to 1");
  }
  MILLRACE_TRY(check_filters(s));
  if (s.temperature > 0.0f && !s.seed) {
    return fail(Code::invalid_value, "the request draws but has no seed",
                "set sampling.seed; jobs from the queue get one from their content");
  }
  return {};
}

Status check_ids(const char* field, const Tokens& ids, std::uint32_t vocabulary) {
  for (std::size_t i = 0; i < ids.size(); ++i) {
    if (ids[i] < vocabulary) continue;
    return fail(Code::invalid_token,
                std::string(field) + "[" + std::to_string(i) + "] is " + std::to_string(ids[i]) +
                    ", the vocabulary has ids 0 to " + std::to_string(vocabulary - 1),
                "tokenize with this model's tokenizer");
  }
  return {};
}

Status check_id_lists(const char* name, const std::vector<Tokens>& lists,
                      std::uint32_t vocabulary) {
  for (std::size_t i = 0; i < lists.size(); ++i) {
    const std::string field = std::string(name) + "[" + std::to_string(i) + "]";
    MILLRACE_TRY(check_ids(field.c_str(), lists[i], vocabulary));
  }
  return {};
}

Status check_ends(const GenerationRequest& request, std::uint32_t vocabulary) {
  MILLRACE_TRY(check_stops(request.stops));
  MILLRACE_TRY(check_ids("stop_token_ids", request.stops.token_ids, vocabulary));
  MILLRACE_TRY(check_id_lists("stop_token_sequences", request.stops.sequences, vocabulary));
  MILLRACE_TRY(check_markers(request.markers));
  return check_repetition(request.repetition_detection);
}

Status check_edited_ids(const LogitEdits& edits, std::uint32_t vocabulary) {
  Tokens biased;
  for (const LogitBias& b : edits.bias) biased.push_back(b.token);
  MILLRACE_TRY(check_ids("logit_bias", biased, vocabulary));
  MILLRACE_TRY(check_ids("allowed_token_ids", edits.allowed, vocabulary));
  MILLRACE_TRY(check_ids("dry_breaker_ids", edits.dry.breaker_ids, vocabulary));
  return check_id_lists("bad_word_ids", edits.bad_word_ids, vocabulary);
}

Status check_logprobs(const LogprobRequest& l, Task task, std::uint32_t vocabulary) {
  MILLRACE_TRY(check_count("top_logprobs", l.top, std::min(limits::top_logprobs, vocabulary)));
  MILLRACE_TRY(check_listed(l.listed));
  MILLRACE_TRY(check_ids("logprob_token_ids", l.listed, vocabulary));
  if (!l.listed.empty() && !l.sampled && !l.prompt && task != Task::score) {
    return fail(Code::invalid_value, "logprob_token_ids are given, but logprobs of no token",
                "ask for logprobs of sampled tokens or of the prompt as well");
  }
  if (l.top > 0 && !l.sampled && !l.prompt && task != Task::score) {
    return fail(
        Code::invalid_value,
        "top_logprobs is " + std::to_string(l.top) + ", but logprobs of no token are asked for",
        "ask for logprobs of sampled tokens or of the prompt as well");
  }
  return {};
}

// As it is meant, however each is written: "k5v3" is "r5/r3".
bool runs(const std::vector<std::string>& names, const std::string& wanted) {
  const auto meant = canonical_kv(wanted);
  return meant && std::ranges::any_of(names, [&](const std::string& name) {
           const auto used = canonical_kv(name);
           return used && *used == *meant;
         });
}

Status check_engine(const GenerationRequest& request, const RequestContext& context) {
  if (request.kv && !runs(context.kv_names, *request.kv)) {
    const bool is_option = parse_kv_policy(*request.kv).has_value();  // by layer it is none
    return fail(Code::unsupported_field,
                "kv \"" + *request.kv + "\" is wanted, this engine runs \"" +
                    context.kv_names.front() + "\"",
                "leave kv out, or send the job to an engine " +
                    (is_option ? "started with --kv " + *request.kv : "that runs it"));
  }
  if (request.require_fingerprint && *request.require_fingerprint != context.fingerprint) {
    return fail(Code::fingerprint_mismatch,
                "the job requires fingerprint " + *request.require_fingerprint +
                    ", this engine's is " + context.fingerprint,
                "run it on an engine of that fingerprint, or leave require_fingerprint out");
  }
  return {};
}

Status check_context(std::uint64_t prompt, std::uint64_t max_tokens, std::uint32_t context) {
  if (prompt + max_tokens <= context) return {};
  return fail(Code::context_exceeded,
              "prompt (" + std::to_string(prompt) + " tokens) and max_tokens (" +
                  std::to_string(max_tokens) + ") exceed the model's context of " +
                  std::to_string(context) + " tokens",
              "shorten the prompt or lower max_tokens");
}

// The tokens to generate where the request does not say: 16, or what the context and the KV pool
// leave for a chat. At least one, so that a prompt that leaves no room is refused by name.
std::uint32_t default_length(const GenerationRequest& request, std::uint64_t prompt,
                             const RequestContext& context) {
  const std::uint64_t pool = std::uint64_t{context.pool->total()} * context.pool->page_tokens() + 1;
  const std::uint64_t room = std::min<std::uint64_t>(context.context_tokens, pool);
  const std::uint64_t rest = room > prompt ? room - prompt : 1;
  const std::uint64_t wanted = std::holds_alternative<Chat>(request.prompt)
                                   ? limits::job_tokens / request.n
                                   : default_max_tokens;
  return static_cast<std::uint32_t>(std::min(rest, wanted));
}

Status check_lengths(const GenerationRequest& request, PreparedRequest& out,
                     const RequestContext& context) {
  if (request.max_tokens == 0u) {
    return fail(Code::invalid_value, "max_tokens is 0",
                "give a number from 1 to " + std::to_string(limits::job_tokens) +
                    "; a job of task score computes a prompt alone");
  }
  out.max_tokens = request.max_tokens.value_or(default_length(request, out.prompt.size(), context));
  MILLRACE_TRY(
      check_count("n x max_tokens", std::uint64_t{out.n} * out.max_tokens, limits::job_tokens));
  if (request.min_tokens > out.max_tokens) {
    return fail(Code::invalid_value,
                "min_tokens is " + std::to_string(request.min_tokens) + ", max_tokens " +
                    std::to_string(out.max_tokens),
                "lower min_tokens or raise max_tokens");
  }
  return check_context(out.prompt.size(), out.max_tokens, context.context_tokens);
}

// Where prompts are likely to part: after the system prompt, after each turn, at the end. A turn
// ends with a token that ends a generation; a template may put a system prompt of its own before
// the messages. Where the turns cannot be told apart only the end counts: this decides no more than
// which pages are kept longer.
std::vector<Checkpoint> checkpoints(const GenerationRequest& request, const Tokens& prompt,
                                    const Tokenizer& tokenizer) {
  std::vector<Checkpoint> out;
  if (const auto* chat = std::get_if<Chat>(&request.prompt)) {
    const auto ends = tokenizer.end_tokens();
    for (std::uint32_t i = 0; i < prompt.size(); ++i) {
      if (std::find(ends.begin(), ends.end(), prompt[i]) == ends.end()) continue;
      out.push_back({i + 1, Keep::user});
    }
    const bool first_is_system = chat->front().role == "system" || out.size() == chat->size() + 1;
    if (out.size() < chat->size() || out.size() > chat->size() + 1) out.clear();
    if (!out.empty() && first_is_system) out.front().keep = Keep::system;
  }
  out.push_back({static_cast<std::uint32_t>(prompt.size()), Keep::user});
  return out;
}

std::shared_ptr<const StopRules> stop_rules(const GenerationRequest& request,
                                            const PreparedRequest& prepared,
                                            const Tokenizer& tokenizer) {
  const auto ends = tokenizer.end_tokens();
  auto rules = std::make_shared<StopRules>(request.stops, Tokens(ends.begin(), ends.end()),
                                           request.min_tokens, prepared.max_tokens);
  rules->repetition = request.repetition_detection;
  if (request.markers.any()) add_markers(request.markers, prepared.prompt, tokenizer, *rules);
  return rules;
}

}  // namespace

Result<PreparedRequest> prepare(const GenerationRequest& request, const RequestContext& context) {
  PreparedRequest out;
  const bool score = request.task == Task::score;
  MILLRACE_TRY(check_engine(request, context));
  if (request.n == 0)
    return fail(Code::invalid_value, "n is 0",
                "give a number from 1 to " + std::to_string(limits::n));
  MILLRACE_TRY(check_count("n", request.n, score ? 1 : limits::n));
  if (!score) {
    MILLRACE_TRY(check_sampling(request.sampling));
    MILLRACE_TRY(check_edits(request.edits));
    MILLRACE_TRY(check_edited_ids(request.edits, context.vocabulary));
  }
  MILLRACE_TRY(check_ends(request, context.vocabulary));
  MILLRACE_TRY(check_logprobs(request.logprobs, request.task, context.vocabulary));
  if (const auto* ids = std::get_if<Tokens>(&request.prompt)) {
    MILLRACE_TRY(check_ids("tokens", *ids, context.vocabulary));
  }
  MILLRACE_ASSIGN(out.prompt, encode_prompt(request, context));
  if (out.prompt.empty()) {
    return fail(Code::empty_prompt, "the prompt holds no token", "give at least one token");
  }

  out.task = request.task;
  out.sampling = request.sampling;
  if (!out.sampling.seed) out.sampling.seed = 0;  // greedy: nothing is drawn
  out.partials = request.partials && !score;
  out.logprobs = request.logprobs;
  out.logprobs.prompt = out.logprobs.prompt || score;
  if (score) {
    out.n = 0;
    MILLRACE_TRY(check_context(out.prompt.size(), 0, context.context_tokens));
  } else {
    out.n = request.n;
    MILLRACE_ASSIGN(out.edits, encode_edits(request.edits, *context.tokenizer));
    MILLRACE_TRY(check_lengths(request, out, context));
    out.rules = stop_rules(request, out, *context.tokenizer);
  }
  out.checkpoints = checkpoints(request, out.prompt, *context.tokenizer);
  MILLRACE_TRY(Scheduler::fits(*context.pool, out.prompt.size(), out.max_tokens));
  return out;
}

}  // namespace millrace::engine
