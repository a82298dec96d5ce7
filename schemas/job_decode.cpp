// msgpack to a job. OpenAI's request bodies are jobs too: the same names, and the values that its
// clients send for "nothing", so null is absent everywhere.
#include <algorithm>
#include <optional>

#include "schemas/codec.hpp"
#include "schemas/fields.hpp"
#include "schemas/job_edits.hpp"
#include "schemas/job_stops.hpp"
#include "schemas/job_values.hpp"
#include "schemas/names.hpp"
#include "schemas/unpack.hpp"
#include "schemas/validate.hpp"

namespace millrace {
namespace {

using wire::next;
using wire::Path;
using wire::peek;
using wire::Reader;
using wire::Token;
using wire::Type;

class JobReader {
 public:
  explicit JobReader(std::string_view body) : in_(body) {}
  Result<DecodedJob> run();

 private:
  struct Handler {
    std::string_view name;
    Status (*read)(JobReader&, const Path&);
  };
  static const Handler handlers[];

  Status one_field(std::string_view key);
  Status finish();
  GenerationRequest& request() { return job_.request; }

  // One of prompt, tokens and messages.
  Status claim_prompt(std::string_view field) {
    if (!prompt_field_.empty()) {
      return fail(Code::invalid_value,
                  std::string(field) + ": given beside " + std::string(prompt_field_),
                  "give one of prompt, tokens and messages");
    }
    prompt_field_ = field;
    return {};
  }
  Status read_max_tokens(const Path& path);
  Status read_stop(const Path& path);
  Status read_repetition(const Path& path);
  Status read_logprobs(const Path& path);
  Status read_stream(const Path& path);
  Status read_task(const Path& path);
  Status read_logprob_mode(const Path& path);
  template <class T>
  Status read_optional(const Path& path, std::optional<T>& out) {
    return wire::read(in_, path, out.emplace());
  }

  Reader in_;
  Job job_;
  std::vector<std::string> unknown_;
  std::string_view prompt_field_;
  std::optional<std::uint32_t> top_by_logprobs_, top_given_;
  std::optional<float> repetition_given_;
};

#define SIMPLE(name, member)                                                         \
  {                                                                                  \
    name, [](JobReader& r, const Path& p) { return wire::read(r.in_, p, r.member); } \
  }
#define OPTIONAL(name, member)                                                     \
  {                                                                                \
    name, [](JobReader& r, const Path& p) { return r.read_optional(p, r.member); } \
  }
#define SCOPE(name, member)                                     \
  {                                                             \
    name, [](JobReader& r, const Path& p) {                     \
      return read_scope(r.in_, p, r.job_.request.edits.member); \
    }                                                           \
  }
#define METHOD(name, method)                                      \
  {                                                               \
    name, [](JobReader& r, const Path& p) { return r.method(p); } \
  }

const JobReader::Handler JobReader::handlers[] = {
    SIMPLE("id", job_.id),
    SIMPLE("custom_id", job_.custom_id),
    SIMPLE("model", job_.model),
    METHOD("task", read_task),
    {"prompt",
     [](JobReader& r, const Path& p) -> Status {
       MILLRACE_TRY(r.claim_prompt(p.name));
       return read_prompt(r.in_, p, r.request().prompt);
     }},
    {"tokens",
     [](JobReader& r, const Path& p) -> Status {
       MILLRACE_TRY(r.claim_prompt(p.name));
       return read_token_ids(r.in_, p, r.request().prompt.emplace<Tokens>());
     }},
    {"messages",
     [](JobReader& r, const Path& p) -> Status {
       MILLRACE_TRY(r.claim_prompt(p.name));
       return read_messages(r.in_, p, r.request().prompt.emplace<Chat>(), r.unknown_);
     }},
    SIMPLE("add_special_tokens", job_.request.add_special_tokens),
    SIMPLE("n", job_.request.n),
    METHOD("max_tokens", read_max_tokens),
    METHOD("max_completion_tokens", read_max_tokens),
    SIMPLE("min_tokens", job_.request.min_tokens),
    SIMPLE("temperature", job_.request.sampling.temperature),
    SIMPLE("top_k", job_.request.sampling.top_k),
    SIMPLE("top_p", job_.request.sampling.top_p),
    SIMPLE("min_p", job_.request.sampling.min_p),
    SIMPLE("typical_p", job_.request.sampling.typical_p),
    SIMPLE("xtc_probability", job_.request.sampling.xtc_probability),
    SIMPLE("xtc_threshold", job_.request.sampling.xtc_threshold),
    {"logit_bias",
     [](JobReader& r, const Path& p) {
       return read_logit_bias(r.in_, p, r.request().edits.bias);
     }},
    METHOD("repetition_penalty", read_repetition),
    METHOD("repeat_penalty", read_repetition),
    SCOPE("repetition_penalty_scope", repetition.scope),
    SIMPLE("repetition_penalty_window", job_.request.edits.repetition.window),
    SIMPLE("presence_penalty", job_.request.edits.presence.value),
    SCOPE("presence_penalty_scope", presence.scope),
    SIMPLE("presence_penalty_window", job_.request.edits.presence.window),
    SIMPLE("frequency_penalty", job_.request.edits.frequency.value),
    SCOPE("frequency_penalty_scope", frequency.scope),
    SIMPLE("frequency_penalty_window", job_.request.edits.frequency.window),
    SIMPLE("dry_multiplier", job_.request.edits.dry.multiplier),
    SIMPLE("dry_base", job_.request.edits.dry.base),
    SIMPLE("dry_allowed_length", job_.request.edits.dry.allowed_length),
    SIMPLE("dry_penalty_last_n", job_.request.edits.dry.window),
    {"dry_sequence_breakers",
     [](JobReader& r, const Path& p) {
       return read_strings(r.in_, p, limits::dry_breakers, r.request().edits.dry.breakers);
     }},
    SIMPLE("no_repeat_ngram_size", job_.request.edits.no_repeat_ngram),
    {"allowed_token_ids",
     [](JobReader& r, const Path& p) -> Status {
       MILLRACE_TRY(read_token_ids(r.in_, p, r.request().edits.allowed));
       if (!r.request().edits.allowed.empty()) return {};
       return fail(Code::invalid_value, p.text() + " is empty",
                   "give the ids that may be drawn, or leave it out: all may");
     }},
    {"bad_words",
     [](JobReader& r, const Path& p) {
       return read_strings(r.in_, p, limits::bad_words, r.request().edits.bad_words);
     }},
    {"bad_word_ids",
     [](JobReader& r, const Path& p) {
       return read_id_lists(r.in_, p, limits::bad_words, r.request().edits.bad_word_ids);
     }},
    OPTIONAL("seed", job_.request.sampling.seed),
    METHOD("stop", read_stop),
    {"stop_token_ids",
     [](JobReader& r, const Path& p) {
       return read_token_ids(r.in_, p, r.request().stops.token_ids);
     }},
    SIMPLE("ignore_eos", job_.request.stops.ignore_eos),
    {"stop_token_sequences",
     [](JobReader& r, const Path& p) {
       return read_id_lists(r.in_, p, limits::stop_sequences, r.request().stops.sequences);
     }},
    SIMPLE("include_stop_str_in_output", job_.request.stops.include),
    {"markers",
     [](JobReader& r, const Path& p) {
       return read_markers(r.in_, p, r.request().markers, r.unknown_);
     }},
    {"repetition_detection",
     [](JobReader& r, const Path& p) {
       return read_repetition_detection(r.in_, p, r.request().repetition_detection, r.unknown_);
     }},
    METHOD("logprobs", read_logprobs),
    OPTIONAL("top_logprobs", top_given_),
    SIMPLE("prompt_logprobs", job_.request.logprobs.prompt),
    METHOD("logprob_mode", read_logprob_mode),
    {"logprob_token_ids",
     [](JobReader& r, const Path& p) {
       return read_token_ids(r.in_, p, r.request().logprobs.listed);
     }},
    SIMPLE("partials", job_.request.partials),
    OPTIONAL("kv", job_.request.kv),
    OPTIONAL("require_fingerprint", job_.request.require_fingerprint),
    SIMPLE("priority", job_.priority),
    OPTIONAL("deadline_us", job_.deadline_us),
    SIMPLE("max_attempts", job_.max_attempts),
    METHOD("stream", read_stream),
    SIMPLE("batch", job_.batch),
    SIMPLE("metadata", job_.metadata),
    SIMPLE("strict", job_.strict),
};

#undef SIMPLE
#undef OPTIONAL
#undef METHOD
#undef SCOPE

Result<DecodedJob> JobReader::run() {
  const Token map = next(in_);
  if (map.type != Type::map) return wire::wrong_type(Path{nullptr, "job"}, "a map", map);
  for (std::uint32_t i = 0; i < map.count; ++i) MILLRACE_TRY(one_field(next(in_).bytes));
  MILLRACE_TRY(finish());
  MILLRACE_TRY(check_job(job_));
  DecodedJob decoded{std::move(job_), {}};
  for (const std::string& name : unknown_) {
    decoded.warnings.push_back("unknown field " + name + " was left out");
  }
  return decoded;
}

Status JobReader::one_field(std::string_view key) {
  const JobField* field = find_job_field(key);
  if (field == nullptr) {
    unknown_.push_back(wire::shown(key));
    wire::skip(in_);
    return {};
  }
  const Path path{nullptr, key};
  if (!field->supported) {
    if (neutral(in_, field->neutral)) return {};
    return unsupported(path.text(), field->about);
  }
  if (wire::take_nil(in_)) return {};
  const auto handler = std::find_if(std::begin(handlers), std::end(handlers),
                                    [&](const Handler& h) { return h.name == key; });
  if (handler == std::end(handlers)) return fail(Code::internal, "no reader for " + path.text());
  return handler->read(*this, path);
}

Status JobReader::finish() {
  if (prompt_field_.empty()) {
    return fail(Code::missing_field, "prompt: absent", "give one of prompt, tokens and messages");
  }
  if (job_.strict && !unknown_.empty()) {
    return fail(Code::unknown_field, "unknown field " + unknown_.front() + " in a strict job",
                "correct its name, or leave it or `strict` out");
  }
  if (top_given_ && top_by_logprobs_ && *top_given_ != *top_by_logprobs_) {
    return fail(Code::invalid_value, "top_logprobs: differs from the number given as logprobs",
                "give one of them, or the same number twice");
  }
  request().logprobs.top = top_given_.value_or(top_by_logprobs_.value_or(0));
  if (request().task == Task::score) request().logprobs.prompt = true;
  return {};
}

Status JobReader::read_max_tokens(const Path& path) {
  std::uint32_t value = 0;
  MILLRACE_TRY(wire::read(in_, path, value));
  if (request().max_tokens && *request().max_tokens != value) {
    return wire::wrong_value(path, "max_tokens and max_completion_tokens differ",
                             "give one of them");
  }
  request().max_tokens = value;
  return {};
}

// repetition_penalty, or llama.cpp's name for it.
Status JobReader::read_repetition(const Path& path) {
  float value = 0;
  MILLRACE_TRY(wire::read(in_, path, value));
  if (repetition_given_ && *repetition_given_ != value) {
    return wire::wrong_value(path, "repetition_penalty and repeat_penalty differ",
                             "give one of them");
  }
  repetition_given_ = value;
  request().edits.repetition.value = value;
  return {};
}

Status JobReader::read_stop(const Path& path) {
  std::vector<std::string>& strings = request().stops.strings;
  const Token token = peek(in_);
  if (token.type == Type::string) return wire::read(in_, path, strings.emplace_back());
  if (token.type != Type::array) {
    return wire::wrong_type(path, "a string or an array of strings", token);
  }
  return read_strings(in_, path, limits::stop_strings, strings);
}

// Chat: true or false beside top_logprobs. Completions: how many likeliest tokens.
Status JobReader::read_logprobs(const Path& path) {
  const Token token = peek(in_);
  if (token.type == Type::integer) {
    request().logprobs.sampled = true;
    MILLRACE_TRY(read_optional(path, top_by_logprobs_));
    if (*top_by_logprobs_ <= limits::top_logprobs) return {};
    return fail(Code::limit_exceeded, path.text() + ": " + std::to_string(*top_by_logprobs_) +
                                          "; the limit is " + std::to_string(limits::top_logprobs));
  }
  if (token.type != Type::boolean) {
    return wire::wrong_type(path, "true, false or a whole number", token);
  }
  return wire::read(in_, path, request().logprobs.sampled);
}

Status JobReader::read_stream(const Path& path) {
  if (peek(in_).type == Type::boolean) {
    // OpenAI's `stream` asks for token by token delivery; ours names the result stream.
    if (next(in_).number == 0) return {};
    return unsupported(path.text(), "false, or the name of a result stream");
  }
  return wire::read(in_, path, job_.stream);
}

Status JobReader::read_task(const Path& path) {
  std::string word;
  MILLRACE_TRY(wire::read(in_, path, word));
  const auto task = wire::from_name<Task>(word);
  if (!task) {
    return fail(Code::unknown_task, path.text() + ": no task " + wire::shown(word),
                "use \"generate\" or \"score\"");
  }
  request().task = *task;
  return {};
}

Status JobReader::read_logprob_mode(const Path& path) {
  std::string word;
  MILLRACE_TRY(wire::read(in_, path, word));
  const auto mode = wire::from_name<LogprobMode>(word);
  if (!mode) {
    return wire::wrong_value(path, "unknown value " + wire::shown(word));
  }
  request().logprobs.mode = *mode;
  return {};
}

}  // namespace

Result<DecodedJob> decode_job(std::string_view body) {
  MILLRACE_TRY(validate(body, job_bounds));
  auto decoded = JobReader(body).run();
  if (!decoded) return fail(with_hint(std::move(decoded).error()));
  return decoded;
}

}  // namespace millrace
