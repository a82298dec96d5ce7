#include "schemas/openai/result_parts.hpp"

#include <algorithm>
#include <utility>

#include "schemas/codec.hpp"
#include "schemas/json_fields.hpp"
#include "schemas/openai/logprobs.hpp"
#include "schemas/openai/notes.hpp"

namespace millrace::openai {
namespace {

constexpr std::string_view reserved_metadata = "millrace.";

}  // namespace

std::string label_of(const JobResult& result) {
  const auto at = result.metadata.find(std::string(label_key));
  return result.custom_id.empty() && at != result.metadata.end() ? at->second : result.custom_id;
}

std::optional<Error> error_of(const JobResult& result) {
  if (result.error) return result.error;
  switch (result.state) {
    case JobState::completed:
      if (result.result) return std::nullopt;
      return Error{Code::internal, "the job is completed but has no result", "report it"};
    case JobState::cancelled:
      return Error{Code::cancelled, "the job was cancelled", ""};
    case JobState::expired:
      return Error{Code::expired, "the deadline passed before the job ended", ""};
    default:
      return Error{Code::internal, "the job ended without an error that says why", "report it"};
  }
}

void add_usage(Usage& to, const Usage& more) {
  to.prompt_tokens += more.prompt_tokens;
  to.cached_tokens += more.cached_tokens;
  to.completion_tokens += more.completion_tokens;
  to.reasoning_tokens += more.reasoning_tokens;
}

void write_usage(JsonWriter& json, const Usage& usage) {
  json.begin_object().field("prompt_tokens", usage.prompt_tokens);
  json.field("completion_tokens", usage.completion_tokens);
  json.field("total_tokens", std::uint64_t{usage.prompt_tokens} + usage.completion_tokens);
  json.key("prompt_tokens_details").begin_object().field("cached_tokens", usage.cached_tokens);
  json.end_object().key("completion_tokens_details").begin_object();
  json.field("reasoning_tokens", usage.reasoning_tokens).end_object().end_object();
}

std::vector<std::string> warnings_of(const JobResult& result) {
  std::vector<std::string> out = result.warnings;
  const auto note = [&result](std::string_view key) -> const std::string* {
    const auto at = result.metadata.find(std::string(key));
    return at == result.metadata.end() ? nullptr : &at->second;
  };
  if (const std::string* line = note(duplicate_key)) {
    out.push_back("line " + *line + " has the same custom_id");
  }
  if (const std::string* named = note(model_key);
      named != nullptr && result.result && *named != result.result->effective.engine.model) {
    out.push_back("the job names model \"" + *named + "\", but \"" +
                  result.result->effective.engine.model + "\" ran");
  }
  return out;
}

void add_warnings(std::vector<std::string>& to, const JobResult& result) {
  for (std::string& warning : warnings_of(result)) {
    if (std::ranges::find(to, warning) == to.end()) to.push_back(std::move(warning));
  }
}

void write_warnings(JsonWriter& json, std::span<const std::string> warnings) {
  if (warnings.empty()) return;
  json.key("millrace").begin_object().key("warnings").begin_array();
  for (const std::string& warning : warnings) json.value(warning);
  json.end_array().end_object();
}

void write_queue_fields(JsonWriter& json, const JobResult& result) {
  json.field("state", wire_name(result.state)).field("attempts", result.attempts);
  json.key("warnings").begin_array();
  for (const std::string& warning : warnings_of(result)) {
    json.value(warning);
  }
  json.end_array().key("metadata").begin_object();
  for (const auto& [name, value] : result.metadata) {
    if (!name.starts_with(reserved_metadata)) {
      json.field(name, value);
    }
  }
  json.end_object();
  if (!result.batch.empty()) {
    json.field("batch", result.batch);
  }
  json.field("submitted_us", result.submitted_us).field("ended_us", result.ended_us);
}

void write_engine_fields(JsonWriter& json, const GenerationResult& result) {
  json.field("fingerprint", result.effective.engine.fingerprint).key("effective").begin_object();
  write_fields(json, result.effective);
  json.end_object().key("times").begin_object();
  write_fields(json, result.times);
  json.end_object();
}

void write_token_parts(JsonWriter& json, const Choice& choice, const Tokens& sampled) {
  json.key("stop_reason");
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
  write_ids(json, sampled);
  if (choice.reasoning_spans) {
    json.key("reasoning_spans");
    write_ids(json, *choice.reasoning_spans);
  }
  if (!choice.tool_calls.empty()) {
    json.key("tool_calls").begin_array();
    for (const std::string& call : choice.tool_calls) json.value(call);
    json.end_array();
  }
  if (choice.tool_call_spans) {
    json.key("tool_call_spans");
    write_ids(json, *choice.tool_call_spans);
  }
}

}  // namespace millrace::openai
