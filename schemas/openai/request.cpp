#include "schemas/openai/request.hpp"

#include <utility>

#include "schemas/base/hash.hpp"
#include "schemas/base/limits.hpp"
#include "schemas/codec.hpp"
#include "schemas/openai/check_json.hpp"
#include "schemas/openai/notes.hpp"
#include "schemas/openai/request_json.hpp"

namespace millrace::openai {
namespace {

constexpr std::uint64_t most_bytes = 64ULL << 20;  // of the jobs of one body

// Takes a flag of the body that no job has; false where it is absent.
Result<bool> take_flag(json& object, const char* name, const std::string& shown) {
  const auto at = object.find(name);
  if (at == object.end()) return false;
  if (!at->is_boolean()) {
    return fail(Code::invalid_value, shown + " is " + type_of(*at) + ", not true or false",
                "leave it out, or write true or false");
  }
  const bool value = at->get<bool>();
  object.erase(at);
  return value;
}

Status take_stream_options(json& body, AnswerForm& form) {
  const auto at = body.find("stream_options");
  if (at == body.end()) return {};
  json options = std::move(*at);
  body.erase(at);
  if (!options.is_object()) {
    return fail(Code::invalid_value, "stream_options is " + type_of(options) + ", not an object",
                "write it like {\"include_usage\": true}");
  }
  if (!form.stream) {
    return fail(Code::invalid_value, "stream_options are given, but stream is not true",
                "add \"stream\": true, or leave stream_options out");
  }
  drop_nulls(options);
  MILLRACE_ASSIGN(form.include_usage,
                  take_flag(options, "include_usage", "stream_options.include_usage"));
  MILLRACE_ASSIGN(const bool continuous, take_flag(options, "continuous_usage_stats",
                                                   "stream_options.continuous_usage_stats"));
  if (continuous) {
    return fail(Code::unsupported_field, "stream_options.continuous_usage_stats is not supported",
                "use include_usage: the last event then has the usage");
  }
  return {};
}

// Takes the prompts of a body that has several; none: the body has one, or none at all.
Result<json> take_prompts(Endpoint endpoint, json& body) {
  const auto prompt = body.find("prompt");
  const bool several = endpoint == Endpoint::completion && prompt != body.end() &&
                       prompt->is_array() && prompt->size() > 1 &&
                       ((*prompt)[0].is_string() || (*prompt)[0].is_array());
  if (!several) return json::array();
  if (prompt->size() > most_prompts) {
    return fail(Code::limit_exceeded,
                "prompt holds " + std::to_string(prompt->size()) + " prompts; the limit is " +
                    std::to_string(most_prompts),
                "send several requests");
  }
  for (std::size_t i = 0; i < prompt->size(); ++i) {
    const json& item = (*prompt)[i];
    if (item.type() == (*prompt)[0].type()) continue;
    const bool texts = (*prompt)[0].is_string();
    return fail(Code::invalid_value,
                "prompt[" + std::to_string(i) + "] is " + type_of(item) + ", not " +
                    (texts ? "a text" : "an array of token ids") + " as prompt[0]",
                "give all prompts as texts, or all as token ids");
  }
  return std::exchange(*prompt, json::array({nullptr}));
}

// Names the span of the request, where the metadata have room: a job without its trace is better
// than none.
void add_trace(json& metadata, const RequestOptions& options) {
  std::uint64_t bytes = metadata_size(metadata);
  const auto add = [&](const std::string& name, const std::string& value) {
    const std::uint64_t more = name.size() + value.size();
    if (value.empty() || metadata.size() >= limits::metadata_entries ||
        bytes + more > limits::metadata_bytes) {
      return;
    }
    bytes += more;
    metadata[name] = value;
  };
  add("traceparent", options.traceparent);
  if (metadata.contains("traceparent")) add("tracestate", options.tracestate);
}

// Adds the job of a body with one prompt.
Status add_job(json body, std::string id, const RequestOptions& options, Request& out) {
  MILLRACE_ASSIGN(json job, job_of_body(out.form.endpoint, std::move(body)));
  if (out.form.echo) out.form.echo_logprobs = ask_for_echo(job);
  if (out.form.stream || options.always_partials) job["partials"] = true;
  if (!id.empty()) job["id"] = id;
  if (!options.stream.empty()) job["stream"] = options.stream;
  if (options.deadline_us) job["deadline_us"] = *options.deadline_us;
  if (options.seed && !job.contains("seed")) job["seed"] = *options.seed + out.jobs.size();
  MILLRACE_TRY(note_body(job, out.form.endpoint));
  add_trace(job["metadata"], options);
  RequestedJob& added = out.jobs.emplace_back();
  added.id = std::move(id);
  json::to_msgpack(job, added.body);
  MILLRACE_ASSIGN(DecodedJob decoded, decode_job(added.body));
  if (out.form.echo) added.echo = std::move(decoded.job.request.prompt);
  out.form.n = decoded.job.request.n;
  out.tools.given = out.form.endpoint == Endpoint::chat && shows_tools(job);
  if (out.tools.given) out.tools.list = std::move(decoded.job.request.chat.tools);
  out.warnings = std::move(decoded.warnings);
  return {};
}

// Which prompts a body has, so that each of its jobs differs from those of a body with others.
std::string prompts_note(const json& prompts) {
  return std::to_string(prompts.size()) + "-" + hash128(prompts.dump()).hex();
}

// Adds a job for each prompt. What they share is in each of them, so their bytes are bounded.
Status add_jobs(json body, const json& prompts, const RequestOptions& options, Request& out) {
  MILLRACE_ASSIGN(json* const metadata, metadata_of(body));
  (*metadata)[prompts_key] = prompts_note(prompts);
  std::uint64_t bytes = 0;
  for (std::size_t i = 0; i < prompts.size(); ++i) {
    body["prompt"][0] = prompts[i];  // in an array of its own it is never taken for a list of them
    const bool as_one = options.id.empty() || i == 0;  // as the job of a body with one prompt
    const std::string id = as_one ? options.id : std::to_string(i) + "-of-" + options.id;
    MILLRACE_TRY(add_job(body, id, options, out));
    bytes += out.jobs.back().body.size();
    if (bytes <= most_bytes) continue;
    return fail(Code::too_large,
                "prompt holds " + std::to_string(prompts.size()) +
                    " prompts, whose jobs together have more than " + std::to_string(most_bytes) +
                    " bytes",
                "send several requests");
  }
  return {};
}

}  // namespace

Result<bool> take_echo(json& body) {
  return take_flag(body, "echo", "echo");
}

bool ask_for_echo(json& job) {
  const auto found = job.find("logprobs");
  const bool logprobs = found != job.end() && *found != false;
  if (logprobs) job["prompt_logprobs"] = true;
  if (const auto length = job.find("max_tokens"); length != job.end() && *length == 0) {
    job.erase(length);
    job["task"] = "score";
  }
  return logprobs;
}

Result<Request> parse_request(Endpoint endpoint, std::string_view text,
                              const RequestOptions& options) {
  if (text.size() > limits::line_bytes) {
    return fail(Code::too_large,
                "the body has " + std::to_string(text.size()) + " bytes; the limit is " +
                    std::to_string(limits::line_bytes),
                "send less at once");
  }
  MILLRACE_TRY(check_json(text));
  json body = json::parse(text, nullptr, false);
  if (!body.is_object()) {
    return fail(Code::invalid_json, "the body holds " + type_of(body) + ", not an object",
                "send one JSON object");
  }
  drop_nulls(body);
  Request out;
  out.form.endpoint = endpoint;
  MILLRACE_ASSIGN(out.form.stream, take_flag(body, "stream", "stream"));
  MILLRACE_TRY(take_stream_options(body, out.form));
  MILLRACE_ASSIGN(out.form.token_ids, take_flag(body, "return_token_ids", "return_token_ids"));
  if (endpoint == Endpoint::completion) {
    MILLRACE_ASSIGN(out.form.echo, take_echo(body));
  }
  if (const auto model = body.find("model"); model != body.end() && model->is_string()) {
    out.model = model->get<std::string>();
  }
  if (const auto user = body.find("user"); user != body.end() && user->is_string()) {
    out.user = user->get<std::string>();
  }
  MILLRACE_ASSIGN(const json prompts, take_prompts(endpoint, body));
  if (prompts.empty()) {
    MILLRACE_TRY(add_job(std::move(body), options.id, options, out));
  } else {
    MILLRACE_TRY(add_jobs(std::move(body), prompts, options, out));
  }
  return out;
}

}  // namespace millrace::openai
