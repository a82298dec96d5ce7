#include "schemas/openai/response.hpp"

#include <algorithm>
#include <utility>

#include "schemas/base/json_writer.hpp"
#include "schemas/codec.hpp"
#include "schemas/openai/chat_answer.hpp"
#include "schemas/openai/echo.hpp"
#include "schemas/openai/notes.hpp"
#include "schemas/openai/result_parts.hpp"
#include "schemas/openai/tool_note.hpp"

namespace millrace::openai {
namespace {

constexpr std::int64_t us_per_second = 1'000'000;
constexpr const char* unread_calls =
    "the tools have too many names to be kept with the job, so a call that needs them to be read "
    "may be wrong or stay in the text; tool_calls of the choice has it as it was written";

// What the choices of one job are written with.
struct Place {
  Endpoint endpoint;
  std::uint32_t first_index;  // of the job's choices
  bool details;
  const TokenTexts& texts;
  const std::string& job;
  const ToolsOfChat& tools;
};

// A message that only calls tools has no content.
void write_message(JsonWriter& json, const Choice& choice, const ChatAnswer& answer,
                   const Place& place) {
  json.begin_object().field("role", "assistant").key("content");
  if (!answer.calls.empty() && answer.content.find_first_not_of(" \t\r\n") == std::string::npos) {
    json.null();
  } else {
    json.value(answer.content);
  }
  json.key("refusal").null();
  if (choice.reasoning) json.field("reasoning_content", *choice.reasoning);
  if (!answer.calls.empty()) {
    json.key("tool_calls");
    write_tool_calls(json, place.job, choice.index, answer.calls);
  }
  json.end_object();
}

void write_chat_choice(JsonWriter& json, const Choice& choice, const Place& place) {
  const ChatAnswer answer = chat_answer(choice, place.tools);
  json.begin_object().field("index", place.first_index + choice.index).key("message");
  write_message(json, choice, answer, place);
  json.key("logprobs");
  if (choice.logprobs) {
    json.begin_object().key("content");
    write_chat_logprobs(json, choice.tokens, *choice.logprobs, place.texts);
    json.key("refusal").null().end_object();
  } else {
    json.null();
  }
  json.field("finish_reason", finish_reason_of(choice, !answer.calls.empty()));
  if (place.details) write_token_parts(json, choice, choice.tokens);
  json.end_object();
}

void write_completion_choice(JsonWriter& json, const Choice& choice, const Tokens& sampled,
                             const Place& place) {
  json.begin_object().field("index", place.first_index + choice.index).field("text", choice.text);
  if (choice.reasoning) json.field("reasoning", *choice.reasoning);
  json.key("logprobs");
  if (choice.logprobs) {
    write_completion_logprobs(json, choice.tokens, *choice.logprobs, place.texts);
  } else {
    json.null();
  }
  json.field("finish_reason", wire_name(choice.finish_reason));
  if (place.details) write_token_parts(json, choice, sampled);
  json.end_object();
}

// `sampled` are the result's own choices, where the others begin with their prompt.
void write_choices(JsonWriter& json, std::span<const Choice> choices,
                   std::span<const Choice> sampled, const Place& place) {
  const Tokens none;  // of a job that only scored its prompt
  for (std::size_t i = 0; i < choices.size(); ++i) {
    if (place.endpoint == Endpoint::chat) {
      write_chat_choice(json, choices[i], place);
    } else {
      const Tokens& tokens = i < sampled.size() ? sampled[i].tokens : none;
      write_completion_choice(json, choices[i], tokens, place);
    }
  }
}

void write_millrace(JsonWriter& json, const JobResult& result, const TokenTexts& texts) {
  json.key("millrace").begin_object().field("job", result.job);
  write_queue_fields(json, result);
  const GenerationResult& generation = *result.result;
  write_engine_fields(json, generation);
  if (generation.prompt) {
    json.key("prompt_token_ids");
    write_ids(json, *generation.prompt);
  }
  if (generation.prompt && generation.prompt_logprobs) {
    json.key("prompt_logprobs");
    write_chat_logprobs(json, *generation.prompt, *generation.prompt_logprobs, texts);
  }
  json.end_object();
}

void begin_body(JsonWriter& json, Endpoint endpoint, const JobResult& first,
                const ResponseOptions& options) {
  json.begin_object().field("id", response_id(endpoint, first.job));
  json.field("object", endpoint == Endpoint::chat ? "chat.completion" : "text_completion");
  json.field("created", options.created_s.value_or(first.ended_us / us_per_second));
  json.field("model", first.result->effective.engine.model).key("choices").begin_array();
}

void end_body(JsonWriter& json, std::span<const JobResult> results, const Usage& usage,
              const ResponseOptions& options, const TokenTexts& texts) {
  const JobResult& first = results.front();
  json.end_array().key("usage");
  write_usage(json, usage);
  json.field("system_fingerprint", first.result->effective.engine.fingerprint);
  if (options.details) {
    write_millrace(json, first, texts);
  } else {
    std::vector<std::string> warnings;
    for (const JobResult& result : results) add_warnings(warnings, result);
    write_warnings(json, warnings);
  }
  json.end_object();
}

// The tools of a job whose request is not known.
ToolsOfChat noted_tools(const JobResult& result) {
  const auto note = result.metadata.find(std::string(tools_key));
  if (note == result.metadata.end()) return {};
  auto list = tools_of_note(note->second);
  if (!list) return {.given = true, .named = false};
  return {.given = true, .list = *std::move(list)};
}

bool has_calls(const JobResult& result) {
  return std::ranges::any_of(result.result->choices,
                             [](const Choice& choice) { return !choice.tool_calls.empty(); });
}

// Writes the body of one job.
std::string body_of(Endpoint endpoint, const JobResult& result, const ResponseOptions& options,
                    const ToolsOfChat& tools) {
  std::string out;
  JsonWriter json(out);
  const TokenTexts texts(options.token_bytes);
  begin_body(json, endpoint, result, options);
  const std::vector<Choice>& choices = result.result->choices;
  write_choices(json, choices, choices, {endpoint, 0, options.details, texts, result.job, tools});
  end_body(json, std::span(&result, 1), result.result->usage, options, texts);
  return out;
}

}  // namespace

std::string response_id(Endpoint endpoint, std::string_view job) {
  return (endpoint == Endpoint::chat ? "chatcmpl-" : "cmpl-") + std::string(job);
}

std::optional<Endpoint> endpoint_of(const JobResult& result) {
  const auto at = result.metadata.find(std::string(shape_key));
  if (at == result.metadata.end()) return std::nullopt;
  return at->second == "chat" ? Endpoint::chat : Endpoint::completion;
}

std::string response_body(Endpoint endpoint, const JobResult& result,
                          const ResponseOptions& options) {
  const ToolsOfChat tools = noted_tools(result);
  if (!tools.named && has_calls(result)) {
    JobResult told = result;
    told.warnings.emplace_back(unread_calls);
    return body_of(endpoint, told, options, tools);
  }
  return body_of(endpoint, result, options, tools);
}

std::string response_body(const Request& request, std::span<const JobResult> results,
                          const ResponseOptions& options) {
  std::string out;
  JsonWriter json(out);
  const TokenTexts texts(options.token_bytes);
  const AnswerForm& form = request.form;
  begin_body(json, form.endpoint, results.front(), options);
  Usage usage;
  for (std::size_t i = 0; i < results.size(); ++i) {
    const GenerationResult& generation = *results[i].result;
    const Place place{form.endpoint,
                      static_cast<std::uint32_t>(i) * form.n,
                      options.details || form.token_ids,
                      texts,
                      results[i].job,
                      request.tools};
    if (form.echo) {
      const std::string prompt = echo_text(request.jobs[i].echo, texts);
      write_choices(json, echoed(generation, prompt, form.echo_logprobs), generation.choices,
                    place);
    } else {
      write_choices(json, generation.choices, generation.choices, place);
    }
    add_usage(usage, generation.usage);
  }
  end_body(json, results, usage, options, texts);
  return out;
}

}  // namespace millrace::openai
