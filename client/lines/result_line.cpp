#include "client/lines/result_line.hpp"

#include <utility>

#include "client/lines/json_writer.hpp"
#include "client/lines/result_fields.hpp"
#include "schemas/codec.hpp"

namespace millrace::client {
namespace {

constexpr std::int64_t us_per_second = 1'000'000;

void write_strings(JsonWriter& json, std::string_view name,
                   const std::vector<std::string>& strings) {
  json.key(name).begin_array();
  for (const std::string& text : strings) {
    json.value(text);
  }
  json.end_array();
}

void write_finish(JsonWriter& json, const Choice& choice) {
  json.field("finish_reason", wire_name(choice.finish_reason)).key("stop_reason");
  if (choice.stop_string) {
    json.value(*choice.stop_string);
  } else if (choice.stop_token) {
    json.value(*choice.stop_token);
  } else if (choice.stop_sequence) {
    write_ids(json, *choice.stop_sequence);
  } else {
    json.null();
  }
  json.key("token_ids");
  write_ids(json, choice.tokens);
  if (choice.reasoning_spans) {
    json.key("reasoning_spans");
    write_ids(json, *choice.reasoning_spans);
  }
  if (!choice.tool_calls.empty()) {
    write_strings(json, "tool_calls", choice.tool_calls);
  }
  if (choice.tool_call_spans) {
    json.key("tool_call_spans");
    write_ids(json, *choice.tool_call_spans);
  }
}

void write_reasoning(JsonWriter& json, const Choice& choice, std::string_view name = "reasoning") {
  if (choice.reasoning) {
    json.field(name, *choice.reasoning);
  }
}

void write_chat_choice(JsonWriter& json, const Choice& choice, const TokenTexts& texts) {
  json.begin_object().field("index", choice.index).key("message").begin_object();
  json.field("role", "assistant").field("content", choice.text);
  // The name that chat templates read, so that the message may stand in the next chat.
  write_reasoning(json, choice, "reasoning_content");
  json.end_object().key("logprobs");
  if (choice.logprobs) {
    json.begin_object().key("content");
    write_chat_logprobs(json, choice.tokens, *choice.logprobs, texts);
    json.end_object();
  } else {
    json.null();
  }
  write_finish(json, choice);
  json.end_object();
}

void write_completion_choice(JsonWriter& json, const Choice& choice, const TokenTexts& texts) {
  json.begin_object().field("index", choice.index).field("text", choice.text);
  write_reasoning(json, choice);
  json.key("logprobs");
  if (choice.logprobs) {
    write_completion_logprobs(json, choice.tokens, *choice.logprobs, texts);
  } else {
    json.null();
  }
  write_finish(json, choice);
  json.end_object();
}

void write_millrace(JsonWriter& json, const JobResult& result, const TokenTexts& texts) {
  json.key("millrace").begin_object().field("job", result.job);
  write_queue_fields(json, result);
  if (result.result) {
    write_engine_fields(json, *result.result);
    if (result.result->prompt) {
      json.key("prompt_token_ids");
      write_ids(json, *result.result->prompt);
    }
    if (result.result->prompt && result.result->prompt_logprobs) {
      json.key("prompt_logprobs");
      write_chat_logprobs(json, *result.result->prompt, *result.result->prompt_logprobs, texts);
    }
  }
  json.end_object();
}

void write_openai_body(JsonWriter& json, const JobResult& result, Shape shape,
                       const TokenTexts& texts) {
  const GenerationResult& generation = *result.result;
  const bool chat = shape == Shape::chat;
  json.begin_object().field("id", (chat ? "chatcmpl-" : "cmpl-") + result.job);
  json.field("object", chat ? "chat.completion" : "text_completion");
  json.field("created", result.ended_us / us_per_second);
  json.field("model", generation.effective.engine.model).key("choices").begin_array();
  for (const Choice& choice : generation.choices) {
    if (chat) {
      write_chat_choice(json, choice, texts);
    } else {
      write_completion_choice(json, choice, texts);
    }
  }
  json.end_array().key("usage");
  write_usage(json, generation.usage);
  json.field("system_fingerprint", generation.effective.engine.fingerprint);
  write_millrace(json, result, texts);
  json.end_object();
}

void write_error_body(JsonWriter& json, const Error& error) {
  json.begin_object().key("error").begin_object().field("message", error.message);
  json.field("type", code_http_status(error.code) < 500 ? "invalid_request_error" : "server_error");
  json.key("param").null().field("code", code_name(error.code)).end_object().end_object();
}

void write_error(JsonWriter& json, const Error& error, std::uint64_t line) {
  json.begin_object().field("code", code_name(error.code)).field("message", error.message);
  if (!error.hint.empty()) {
    json.field("hint", error.hint);
  }
  if (line != 0) {
    json.field("line", line);
  }
  json.end_object();
}

std::optional<Error> error_of(const JobResult& result) {
  if (result.error) {
    return result.error;
  }
  switch (result.state) {
    case JobState::completed:
      if (result.result) {
        return std::nullopt;
      }
      return Error{Code::internal, "the job is completed but has no result", "report it"};
    case JobState::cancelled:
      return Error{Code::cancelled, "the job was cancelled", ""};
    case JobState::expired:
      return Error{Code::expired, "the deadline passed before the job ended", ""};
    default:
      return Error{Code::internal, "the job ended without an error that says why", "report it"};
  }
}

}  // namespace

Shape shape_of(const JobResult& result) {
  const auto at = result.metadata.find(std::string(shape_key));
  if (at == result.metadata.end()) {
    return Shape::plain;
  }
  return at->second == "chat" ? Shape::chat : Shape::completion;
}

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
  const Shape shape = shape_of(result);
  if (!result.result && error) {
    write_error_body(json, *error);
  } else if (shape == Shape::plain) {
    json.raw(result_json(result, options));
  } else {
    write_openai_body(json, result, shape, TokenTexts(options.token_bytes));
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

std::string result_json(const JobResult& result, const ResultLineOptions& options) {
  std::string out;
  JsonWriter json(out);
  const TokenTexts texts(options.token_bytes);
  json.begin_object().field("job", result.job).field("custom_id", label_of(result));
  json.field("model", result.result ? result.result->effective.engine.model : result.model);
  write_queue_fields(json, result);
  if (result.error) {
    json.key("error");
    write_error(json, *result.error, 0);
  }
  if (result.result) {
    const GenerationResult& generation = *result.result;
    json.key("choices").begin_array();
    for (const Choice& choice : generation.choices) {
      json.begin_object().field("index", choice.index).field("text", choice.text);
      write_reasoning(json, choice);
      write_finish(json, choice);
      if (choice.logprobs) {
        json.key("logprobs");
        write_logprob_arrays(json, *choice.logprobs);
      }
      json.end_object();
    }
    json.end_array().key("usage");
    write_usage(json, generation.usage);
    write_engine_fields(json, generation);
    if (generation.prompt) {
      json.key("prompt_token_ids");
      write_ids(json, *generation.prompt);
    }
    if (generation.prompt_logprobs) {
      json.key("prompt_logprobs");
      write_logprob_arrays(json, *generation.prompt_logprobs);
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
    write_strings(json, "tool_calls", entry.partial.tool_calls);
  }
  json.end_object();
  out += '\n';
  return out;
}

}  // namespace millrace::client
