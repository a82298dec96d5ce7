#include "schemas/openai/chunk_event.hpp"

#include "schemas/base/json_writer.hpp"
#include "schemas/openai/result_parts.hpp"

namespace millrace::openai {
namespace {

void begin_event(JsonWriter& json, const EventFacts& facts) {
  json.begin_object().field("id", facts.id);
  json.field("object",
             facts.form.endpoint == Endpoint::chat ? "chat.completion.chunk" : "text_completion");
  json.field("created", facts.created_s).field("model", facts.model);
  json.key("system_fingerprint");
  if (facts.fingerprint.empty()) {
    json.null();
  } else {
    json.value(facts.fingerprint);
  }
  json.key("choices").begin_array();
}

// Where a stream ends with its usage, the other events say that they have none.
void end_event(JsonWriter& json, const EventFacts& facts, const Usage* usage,
               std::span<const std::string> warnings) {
  json.end_array();
  if (facts.form.include_usage) {
    json.key("usage");
    if (usage == nullptr) {
      json.null();
    } else {
      write_usage(json, *usage);
    }
  }
  write_warnings(json, warnings);
  json.end_object();
}

void write_chat_delta(JsonWriter& json, const Delta& delta) {
  json.key("delta").begin_object();
  if (delta.role) json.field("role", "assistant").field("content", "");
  if (!delta.reasoning.empty()) json.field("reasoning_content", delta.reasoning);
  if (!delta.text.empty()) json.field("content", delta.text);
  if (!delta.calls.empty()) {
    json.key("tool_calls");
    write_tool_call_deltas(json, delta.job, delta.choice, delta.calls, delta.first_call);
  }
  json.end_object();
}

void write_completion_delta(JsonWriter& json, const Delta& delta) {
  json.field("text", delta.text);
  if (!delta.reasoning.empty()) json.field("reasoning", delta.reasoning);
}

void write_logprobs(JsonWriter& json, Endpoint endpoint, const Choice* choice,
                    const TokenTexts& texts) {
  json.key("logprobs");
  if (choice == nullptr || !choice->logprobs) {
    json.null();
  } else if (endpoint == Endpoint::chat) {
    json.begin_object().key("content");
    write_chat_logprobs(json, choice->tokens, *choice->logprobs, texts);
    json.key("refusal").null().end_object();
  } else {
    write_completion_logprobs(json, choice->tokens, *choice->logprobs, texts);
  }
}

}  // namespace

std::string chunk_event(const EventFacts& facts, const Delta& delta, const TokenTexts& texts) {
  std::string out;
  JsonWriter json(out);
  begin_event(json, facts);
  json.begin_object().field("index", delta.index);
  if (facts.form.endpoint == Endpoint::chat) {
    write_chat_delta(json, delta);
  } else {
    write_completion_delta(json, delta);
  }
  write_logprobs(json, facts.form.endpoint, delta.logprobs, texts);
  json.key("finish_reason");
  if (delta.finish_reason.empty()) {
    json.null();
  } else {
    json.value(delta.finish_reason);
  }
  if (facts.form.token_ids && !delta.tokens.empty()) {
    json.key("token_ids").begin_array();
    for (const TokenId id : delta.tokens) json.value(id);
    json.end_array();
  }
  json.end_object();
  end_event(json, facts, nullptr, delta.warnings);
  return out;
}

std::string usage_event(const EventFacts& facts, const Usage& usage,
                        std::span<const std::string> warnings) {
  std::string out;
  JsonWriter json(out);
  begin_event(json, facts);
  end_event(json, facts, &usage, warnings);
  return out;
}

}  // namespace millrace::openai
