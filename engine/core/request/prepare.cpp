#include "engine/core/request/prepare.hpp"

#include <algorithm>
#include <string>
#include <utility>

#include "engine/core/request/encode_edits.hpp"
#include "engine/core/request/encode_prompt.hpp"
#include "engine/core/request/markers.hpp"
#include "engine/core/request/reasoning_limit.hpp"
#include "engine/core/request/suggested_sampling.hpp"
#include "engine/core/scheduler/scheduler.hpp"
#include "schemas/base/check_field.hpp"
#include "schemas/base/check_request.hpp"
#include "schemas/base/kv_policy.hpp"
#include "schemas/base/limits.hpp"
#include "schemas/base/number_text.hpp"
#include "schemas/base/request_fields.hpp"

namespace millrace::engine {
namespace {

// Checks every token id of a request against the vocabulary.
class VocabularyChecker {
 public:
  explicit VocabularyChecker(std::uint32_t vocabulary) : vocabulary_(vocabulary) {}

  template <class T>
  void field(std::string_view name, const T& value, const auto&...) {
    if constexpr (std::is_same_v<T, Tokens>) {
      check(std::string(name), value);
    } else if constexpr (std::is_same_v<T, std::vector<Tokens>>) {
      for (std::size_t i = 0; i < value.size(); ++i) check(item_name(name, i), value[i]);
    } else if constexpr (std::is_same_v<T, std::vector<LogitBias>>) {
      Tokens ids;
      for (const LogitBias& bias : value) ids.push_back(bias.token);
      check(std::string(name), ids);
    }
  }
  void field(std::string_view name, const Prompt& prompt, const Alternative<Tokens>&, const auto&) {
    if (const auto* ids = std::get_if<Tokens>(&prompt)) check(std::string(name), *ids);
  }
  void beside(std::string_view name, const auto& value, const auto&... rest) {
    field(name, value, rest...);
  }
  void alias(const auto&...) {}

  Status take() && { return std::move(status_); }

 private:
  void check(const std::string& name, const Tokens& ids) {
    for (std::size_t i = 0; i < ids.size() && status_; ++i) {
      if (ids[i] < vocabulary_) continue;
      status_ = fail(Code::invalid_token,
                     item_name(name, i) + " is " + std::to_string(ids[i]) +
                         "; the vocabulary has ids 0 to " + std::to_string(vocabulary_ - 1),
                     "tokenize with this model's tokenizer");
    }
  }
  std::uint32_t vocabulary_;
  Status status_;
};

Status check_vocabulary(const GenerationRequest& request, std::uint32_t vocabulary) {
  VocabularyChecker checker(vocabulary);
  fields(checker, request);
  MILLRACE_TRY(std::move(checker).take());
  return check_value("top_logprobs", std::uint64_t{request.logprobs.top}, Count{vocabulary});
}

// Says whether a name means the wanted policy, however both are written: "k5v3" is "r5/r3".
bool runs(const std::vector<std::string>& names, const std::string& wanted) {
  const auto meant = canonical_kv(wanted);
  return meant && std::ranges::any_of(names, [&](const std::string& name) {
           const auto used = canonical_kv(name);
           return used && *used == *meant;
         });
}

Status check_engine(const GenerationRequest& request, const RequestContext& context) {
  if (request.kv && !context.kv_names.empty() && !runs(context.kv_names, *request.kv)) {
    const bool is_option = parse_kv_policy(*request.kv).has_value();  // a policy by layer is not
    return fail(Code::unsupported_field,
                "the job wants kv \"" + *request.kv + "\", but this engine runs \"" +
                    context.kv_names.front() + "\"",
                "leave kv out, or send the job to an engine " +
                    (is_option ? "started with --kv " + *request.kv : "that runs it"));
  }
  const bool is_known = !context.fingerprint.empty();
  if (request.require_fingerprint && is_known &&
      *request.require_fingerprint != context.fingerprint) {
    return fail(Code::fingerprint_mismatch,
                "the job requires fingerprint " + *request.require_fingerprint +
                    ", this engine's is " + context.fingerprint,
                "send it to an engine with that fingerprint, or leave require_fingerprint out");
  }
  return {};
}

Status check_context(std::uint64_t prompt, std::uint64_t max_tokens, std::uint32_t context) {
  if (prompt + max_tokens <= context) return {};
  return fail(Code::context_exceeded,
              "prompt (" + count_text(prompt, "token") + ") and max_tokens (" +
                  std::to_string(max_tokens) + ") exceed the model's context of " +
                  std::to_string(context) + " tokens",
              "shorten the prompt or lower max_tokens");
}

// The default of max_tokens: 16, or for a chat as many as a job may have, and never more than the
// context and the KV pool leave. It is at least 1, so that a later check refuses a prompt that
// leaves no room.
std::uint32_t default_length(const GenerationRequest& request, std::uint64_t prompt,
                             const RequestContext& context) {
  const std::uint64_t pool = context.pools ? context.pools->most_positions() + 1 : UINT64_MAX;
  const std::uint64_t room = std::min<std::uint64_t>(context.context_tokens, pool);
  const std::uint64_t rest = room > prompt ? room - prompt : 1;
  const std::uint64_t asked = default_max_tokens(request);
  const std::uint64_t wanted = asked == 0 ? limits::job_tokens / request.n : asked;
  return static_cast<std::uint32_t>(std::min(rest, wanted));
}

Status check_lengths(const GenerationRequest& request, PreparedRequest& out,
                     const RequestContext& context) {
  out.max_tokens = request.max_tokens.value_or(default_length(request, out.prompt.size(), context));
  if (request.min_tokens > out.max_tokens) {
    return fail(Code::invalid_value,
                "min_tokens is " + std::to_string(request.min_tokens) + ", max_tokens " +
                    std::to_string(out.max_tokens),
                "lower min_tokens or raise max_tokens");
  }
  return check_context(out.prompt.size(), out.max_tokens, context.context_tokens);
}

// The positions at which prompts are likely to diverge: after the system prompt, after each message
// and at the end. A message ends with a token for that; a template may put a system prompt of its
// own before the messages. If the number of such tokens does not match the messages, only the end
// counts. Checkpoints decide which pages the cache keeps longer, and after which pages states stay.
std::vector<Checkpoint> checkpoints(const GenerationRequest& request, const Tokens& prompt,
                                    const Tokenizer& tokenizer) {
  std::vector<Checkpoint> out;
  if (const auto* chat = std::get_if<Chat>(&request.prompt)) {
    const auto ends = tokenizer.message_ends();
    for (std::uint32_t i = 0; i < prompt.size(); ++i) {
      if (std::find(ends.begin(), ends.end(), prompt[i]) == ends.end()) continue;
      out.push_back({i + 1, Keep::user});
    }
    if (out.size() < chat->size() || out.size() > chat->size() + 1) out.clear();
    const std::string& role = chat->front().role;
    const bool given = role == "system" || role == "developer";
    const std::size_t system = out.empty() ? 0 : out.size() - chat->size() + (given ? 1 : 0);
    for (std::size_t i = 0; i < system; ++i) out[i].keep = Keep::system;
  }
  out.push_back({static_cast<std::uint32_t>(prompt.size()), Keep::user});
  return out;
}

Result<std::shared_ptr<const StopRules>> stop_rules(const GenerationRequest& request,
                                                    const PreparedRequest& prepared,
                                                    const RequestContext& context) {
  const Tokenizer& tokenizer = *context.tokenizer;
  const auto ends = tokenizer.end_tokens();
  auto rules = std::make_shared<StopRules>(request.stops, Tokens(ends.begin(), ends.end()),
                                           request.min_tokens, prepared.max_tokens);
  rules->repetition = request.repetition_detection;
  add_markers(wanted_markers(request, context.markers), prepared.prompt, tokenizer, *rules);
  if (request.max_reasoning_tokens) {
    MILLRACE_TRY(add_reasoning_limit(*request.max_reasoning_tokens, tokenizer, *rules));
  }
  return rules;
}

}  // namespace

Result<PreparedRequest> prepare(const GenerationRequest& request, const RequestContext& context) {
  PreparedRequest out;
  const bool score = request.task == Task::score;
  MILLRACE_TRY(check_engine(request, context));
  MILLRACE_TRY(check_prompt_size(request.prompt, context));
  if (!score && request.sampling_source == SamplingSource::model) {
    GenerationRequest filled = request;
    MILLRACE_TRY(
        apply_suggestion(context.suggested_sampling, context.suggested_sampling_error, filled));
    filled.sampling_source = SamplingSource::job;
    return prepare(filled, context);
  }
  MILLRACE_TRY(check_request(request));
  MILLRACE_TRY(check_vocabulary(request, context.vocabulary));
  if (!score && request.sampling.temperature > 0.0f && !request.sampling.seed) {
    return fail(Code::invalid_value, "the request draws tokens but has no seed",
                "set sampling.seed; jobs from the queue get one from their content");
  }
  MILLRACE_ASSIGN(out.prompt, encode_prompt(request, context));
  if (out.prompt.empty()) {
    return fail(Code::empty_prompt, "the prompt holds no token", "give at least one token");
  }

  out.task = request.task;
  out.sampling = request.sampling;
  if (!out.sampling.seed) out.sampling.seed = 0;  // greedy sampling uses no seed
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
    MILLRACE_ASSIGN(out.rules, stop_rules(request, out, context));
  }
  out.checkpoints = checkpoints(request, out.prompt, *context.tokenizer);
  if (context.pools != nullptr) {
    MILLRACE_TRY(Scheduler::fits(*context.pools, out.prompt.size(), out.max_tokens));
  }
  return out;
}

}  // namespace millrace::engine
