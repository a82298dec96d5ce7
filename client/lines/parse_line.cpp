#include "client/lines/parse_line.hpp"

#include <utility>

#include "client/lines/echoed_line.hpp"
#include "schemas/codec.hpp"
#include "schemas/openai/check_json.hpp"
#include "schemas/openai/notes.hpp"
#include "schemas/openai/request_json.hpp"

namespace millrace::client {
namespace {

using openai::Endpoint;
using openai::json;

std::unexpected<Error> no_streaming(const json& stream) {
  return fail(Code::unsupported_field, "stream: " + stream.dump() + " is not supported",
              "omit it: each line gets one whole result");
}

bool is_openai_line(const json& line) {
  return line.contains("body") || line.contains("url") || line.contains("method");
}

Result<Endpoint> endpoint_of_line(const json& line) {
  const auto method = line.find("method");
  if (method != line.end() && *method != "POST") {
    return fail(Code::invalid_value, "method is " + method->dump() + ", not \"POST\"",
                "write \"method\": \"POST\", or omit it");
  }
  const auto url = line.find("url");
  if (url == line.end()) {
    return fail(Code::missing_field, "the line has no url",
                "use /v1/chat/completions or /v1/completions");
  }
  const auto endpoint = openai::endpoint_of(url->is_string() ? url->get<std::string>() : "");
  if (endpoint) return *endpoint;
  return fail(Code::invalid_value, "url " + url->dump() + " is not supported",
              "use /v1/chat/completions or /v1/completions");
}

// Returns the job map of an OpenAI line. Notes how far it is in order.
Result<json> job_of_openai_line(json& line, bool echo, ParsedLine& parsed) {
  MILLRACE_ASSIGN(parsed.endpoint, endpoint_of_line(line));
  const auto body = line.find("body");
  if (body == line.end()) {
    return fail(Code::missing_field, "the line has no body", "put the request into \"body\"");
  }
  if (!body->is_object()) {
    return fail(Code::invalid_value, "body is " + openai::type_of(*body) + ", not an object",
                "put the request into \"body\"");
  }
  parsed.error_in_body = true;
  echo = echo && parsed.endpoint == Endpoint::completion;
  if (echo) {
    MILLRACE_ASSIGN(parsed.echo, openai::take_echo(*body));
  }
  MILLRACE_ASSIGN(json job, openai::job_of_body(*parsed.endpoint, std::move(*body)));
  if (parsed.echo) openai::ask_for_echo(job);
  if (const auto stream = job.find("stream"); stream != job.end()) return no_streaming(*stream);
  for (auto& [name, value] : line.items()) {
    if (name == "body" || name == "url" || name == "method") {
      continue;
    }
    if (name != "custom_id" && job.contains(name)) {
      return fail(Code::invalid_value, "the field \"" + name + "\" is beside body and inside it",
                  "keep the one inside body");
    }
    job[name] = std::move(value);
  }
  return job;
}

Result<json> job_of_plain_line(json& line) {
  if (const auto stream = line.find("stream"); stream != line.end() && *stream == true) {
    return no_streaming(*stream);
  }
  const auto tokens = line.find("tokens");
  if (tokens != line.end()) {
    MILLRACE_ASSIGN(json packed, openai::packed_token_ids(*tokens, "tokens"));
    *tokens = std::move(packed);
  }
  return std::move(line);
}

// Whether a job's deadline is later, or is none. One that is no integer is refused elsewhere.
bool is_later(const json& job, std::int64_t time_us) {
  const auto deadline = job.find("deadline_us");
  if (deadline == job.end()) return true;
  if (deadline->is_number_unsigned()) {
    return deadline->get<std::uint64_t>() > static_cast<std::uint64_t>(time_us);
  }
  return false;
}

// Adds what the caller decides about the job's place in the queue, and the notes that go with it.
Status complete_job(json& job, const LineOptions& options, ParsedLine& parsed) {
  bool labelled_by_id = false;
  if (options.own_queue) {
    // The job gets no custom_id, because `run` and `submit` of one file must derive the same seeds.
    labelled_by_id = !parsed.custom_id && job.contains("id") && job["id"].is_string();
    if (labelled_by_id) parsed.custom_id = job["id"].get<std::string>();
    for (const char* name : {"id", "stream", "batch"}) {
      job.erase(name);
    }
  }
  const auto fill = [&job](const char* name, const std::string& value) {
    if (!value.empty() && !job.contains(name)) {
      job[name] = value;
    }
  };
  const auto fill_time = [&job](const char* name, std::optional<std::int64_t> value) {
    if (value && !job.contains(name)) {
      job[name] = *value;
    }
  };
  const auto batch = job.find("batch");
  parsed.other_batch = batch != job.end() && *batch != options.batch;
  const auto stream = job.find("stream");
  parsed.other_stream = stream != job.end() && *stream != options.stream;
  fill("id", options.id);
  fill("stream", options.stream);
  fill("batch", options.batch);
  fill_time("not_before_us", options.not_before_us);
  fill_time("deadline_us", options.deadline_us);
  if (options.latest_us && is_later(job, *options.latest_us))
    job["deadline_us"] = *options.latest_us;
  std::optional<std::string> named;
  if (options.model) {
    if (const auto model = job.find("model");
        model != job.end() && model->is_string() && *model != *options.model && *model != "*") {
      named = model->get<std::string>();
    }
    // A model that is not a string stays in the job, and decode_job refuses it.
    if (!job.contains("model") || job["model"].is_string()) {
      job["model"] = *options.model;
    }
  }
  if (options.strict) {
    job["strict"] = true;
  }
  std::optional<std::uint64_t> first_use;
  if (options.custom_ids != nullptr && parsed.custom_id) {
    first_use = options.custom_ids->add(*parsed.custom_id, parsed.number);
  }
  if (parsed.endpoint) MILLRACE_TRY(openai::note_body(job, *parsed.endpoint));
  if (!first_use && !named && !labelled_by_id) return {};
  MILLRACE_ASSIGN(json* const metadata, openai::metadata_of(job));
  if (first_use) {
    (*metadata)[openai::duplicate_key] = std::to_string(*first_use);
  }
  if (named) {
    (*metadata)[openai::model_key] = *named;
  }
  if (labelled_by_id) {
    (*metadata)[openai::label_key] = *parsed.custom_id;
  }
  return {};
}

Status parse_into(const InputLine& line, const LineOptions& options, ParsedLine& parsed) {
  if (line.too_long) {
    return fail(Code::too_large,
                "the line has " + std::to_string(line.bytes) + " bytes; the limit is " +
                    std::to_string(limits::line_bytes),
                "split the job");
  }
  MILLRACE_TRY(openai::check_json(line.text));
  json value = json::parse(line.text, nullptr, false);
  if (!value.is_object()) {
    return fail(Code::invalid_json, "the line holds " + openai::type_of(value) + ", not an object",
                "write one JSON object on each line");
  }
  openai::drop_nulls(value);
  if (const auto id = value.find("custom_id"); id != value.end()) {
    if (!id->is_string()) {
      return fail(Code::invalid_value, "custom_id is " + openai::type_of(*id) + ", not a string",
                  "put it in quotes");
    }
    parsed.custom_id = id->get<std::string>();
  }
  json job;
  if (is_openai_line(value)) {
    MILLRACE_ASSIGN(job, job_of_openai_line(value, options.echo, parsed));
  } else {
    MILLRACE_ASSIGN(job, job_of_plain_line(value));
  }
  openai::drop_nulls(job);
  MILLRACE_TRY(complete_job(job, options, parsed));
  if (parsed.echo) {
    MILLRACE_ASSIGN(json* const metadata, openai::metadata_of(job));
    (*metadata)[openai::echo_key] = place_note(line);
  }
  json::to_msgpack(job, parsed.body);
  MILLRACE_ASSIGN(DecodedJob decoded, decode_job(parsed.body));
  parsed.id = std::move(decoded.job.id);
  parsed.stream = std::move(decoded.job.stream);
  parsed.warnings = std::move(decoded.warnings);
  return {};
}

}  // namespace

ParsedLine parse_line(const InputLine& line, const LineOptions& options) {
  ParsedLine parsed;
  parsed.number = line.number;
  parsed.id = options.id;
  if (Status status = parse_into(line, options, parsed); !status) {
    parsed.error = std::move(status).error();
    parsed.body.clear();
  } else {
    parsed.error_in_body = false;
  }
  return parsed;
}

ParsedLine refused_line(std::uint64_t number, const Body& job, const Error& error) {
  ParsedLine parsed;
  parsed.number = number;
  parsed.error = error;
  if (auto decoded = decode_job(job)) {
    parsed.id = std::move(decoded->job.id);
    if (!decoded->job.custom_id.empty()) {
      parsed.custom_id = std::move(decoded->job.custom_id);
    }
  }
  return parsed;
}

}  // namespace millrace::client
