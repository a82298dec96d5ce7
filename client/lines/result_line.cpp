#include "client/lines/result_line.hpp"

#include <span>
#include <utility>

#include "schemas/base/json_writer.hpp"
#include "schemas/codec.hpp"
#include "schemas/openai/error_body.hpp"
#include "schemas/openai/response.hpp"
#include "schemas/openai/result_parts.hpp"

namespace millrace::client {

using openai::error_of;
using openai::label_of;
using openai::write_ids;

namespace {

void write_error(JsonWriter& json, const Error& error, std::uint64_t line) {
  json.begin_object().field("code", code_name(error.code)).field("message", error.message);
  json.field("hint", error.what_to_do());
  if (line != 0) {
    json.field("line", line);
  }
  json.end_object();
}

}  // namespace

std::string result_line(const JobResult& result, std::uint64_t line,
                        const ResultLineOptions& options) {
  std::string out;
  JsonWriter json(out);
  const std::optional<Error> error = error_of(result);
  json.begin_object().field("id", result.job).key("custom_id");
  if (const std::string label = label_of(result); label.empty()) {
    json.null();
  } else {
    json.value(label);
  }
  json.key("response").begin_object();
  json.field("status_code", error ? code_http_status(error->code) : 200);
  json.field("request_id", result.job).key("body");
  const auto endpoint = openai::endpoint_of(result);
  if (!result.result && error) {
    openai::write_error_body(json, *error);
  } else if (!endpoint) {
    json.raw(result_json(result));
  } else {
    const openai::ResponseOptions form{.token_bytes = options.token_bytes, .details = true};
    json.raw(options.request != nullptr
                 ? openai::response_body(*options.request, std::span(&result, 1), form)
                 : openai::response_body(*endpoint, result, form));
  }
  json.end_object().key("error");
  if (error) {
    write_error(json, *error, line);
  } else {
    json.null();
  }
  json.end_object();
  out += '\n';
  return out;
}

std::string bad_line(const ParsedLine& parsed) {
  JobResult result;
  result.job = parsed.id;
  result.custom_id = parsed.custom_id.value_or("");
  result.state = JobState::failed;
  result.error = parsed.error;
  return result_line(result, parsed.number, {});
}

std::string result_json(const JobResult& result) {
  std::string out;
  JsonWriter json(out);
  json.begin_object().field("job", result.job).field("custom_id", label_of(result));
  json.field("model", result.result ? result.result->effective.engine.model : result.model);
  openai::write_queue_fields(json, result);
  if (result.error) {
    json.key("error");
    write_error(json, *result.error, 0);
  }
  if (result.result) {
    const GenerationResult& generation = *result.result;
    json.key("choices").begin_array();
    for (const Choice& choice : generation.choices) {
      json.begin_object().field("index", choice.index).field("text", choice.text);
      if (choice.reasoning) json.field("reasoning", *choice.reasoning);
      json.field("finish_reason", wire_name(choice.finish_reason));
      openai::write_token_parts(json, choice, choice.tokens);
      if (choice.logprobs) {
        json.key("logprobs");
        openai::write_logprob_arrays(json, *choice.logprobs);
      }
      json.end_object();
    }
    json.end_array().key("usage");
    openai::write_usage(json, generation.usage);
    openai::write_engine_fields(json, generation);
    if (generation.prompt) {
      json.key("prompt_token_ids");
      write_ids(json, *generation.prompt);
    }
    if (generation.prompt_logprobs) {
      json.key("prompt_logprobs");
      openai::write_logprob_arrays(json, *generation.prompt_logprobs);
    }
  }
  json.end_object();
  return out;
}

std::string partial_line(const std::string& stream, const PartialEntry& entry) {
  std::string out;
  JsonWriter json(out);
  json.begin_object().field("object", "millrace.partial").field("stream", stream);
  json.field("job", entry.job).field("custom_id", entry.custom_id);
  json.field("attempt", entry.attempt).field("choice", entry.partial.choice);
  json.field("first_token", entry.partial.first_token).key("token_ids");
  write_ids(json, entry.partial.tokens);
  json.field("text", entry.partial.text);
  if (!entry.partial.reasoning.empty()) {
    json.field("reasoning", entry.partial.reasoning);
  }
  if (!entry.partial.tool_calls.empty()) {
    json.key("tool_calls").begin_array();
    for (const std::string& call : entry.partial.tool_calls) json.value(call);
    json.end_array();
  }
  json.end_object();
  out += '\n';
  return out;
}

}  // namespace millrace::client
