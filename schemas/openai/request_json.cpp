#include "schemas/openai/request_json.hpp"

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "schemas/base/limits.hpp"
#include "schemas/openai/check_json.hpp"
#include "schemas/openai/notes.hpp"
#include "schemas/openai/tool_note.hpp"

namespace millrace::openai {
namespace {

// Of the metadata's bytes; the rest is for shorter notes, without which no result can be told.
constexpr std::size_t kept_for_notes = limits::metadata_bytes - 4096;

// Refuses names that mean something else in a job map.
Status check_names(const json& body) {
  for (const char* name : {"id", "custom_id", "batch", "tokens", "task", "deadline_us"}) {
    if (!body.contains(name)) continue;
    return fail(Code::invalid_value, std::string(name) + ": not a field of an OpenAI body",
                "leave it out; in a line of a file it stands beside \"body\", or the line is a "
                "plain job");
  }
  return {};
}

// A chat needs messages and has no prompt; a completion the other way around.
Status check_prompt_field(Endpoint endpoint, const json& body) {
  const bool chat = endpoint == Endpoint::chat;
  const std::string wanted = chat ? "messages" : "prompt", other = chat ? "prompt" : "messages";
  const std::string value =
      chat ? "give an array of {role, content}" : "give a text or an array of token ids";
  const std::string elsewhere(path_of(chat ? Endpoint::completion : Endpoint::chat));
  if (!body.contains(wanted)) {
    return fail(
        Code::missing_field, wanted + ": the body has none",
        value + (body.contains(other) ? ", or send the " + other + " to " + elsewhere : ""));
  }
  if (body.contains(other)) {
    return fail(Code::invalid_value,
                other + ": not a field of a " + (chat ? "chat" : "completion") + "'s body",
                "use " + elsewhere);
  }
  return {};
}

Status map_prompt(json& body) {
  json& prompt = body["prompt"];
  if (!prompt.is_array()) return {};
  const auto is_prompt = [](const json& item) { return item.is_string() || item.is_array(); };
  if (prompt.size() == 1 && is_prompt(prompt[0])) {
    prompt = json(prompt[0]);
  } else if (prompt.size() > 1 && is_prompt(prompt[0])) {
    return fail(Code::invalid_value, "prompt holds " + std::to_string(prompt.size()) + " prompts",
                "write one line for each prompt");
  }
  if (prompt.is_array()) {
    MILLRACE_ASSIGN(body["tokens"], packed_token_ids(prompt, "prompt"));
    body.erase("prompt");
  }
  return {};
}

bool is_minus_one(const json& value) {
  return value.is_number_integer() && !value.is_number_unsigned() && value == -1;
}

// A length of -1 has no limit in llama-server, as in a chat without one.
Status map_lengths(Endpoint endpoint, json& body) {
  for (const char* name : {"max_tokens", "max_completion_tokens", "n_predict"}) {
    const auto length = body.find(name);
    if (length == body.end() || !is_minus_one(*length)) continue;
    if (endpoint != Endpoint::chat) {
      return fail(Code::invalid_value,
                  std::string(name) + " is -1, but a completion's length needs a limit here",
                  "give a number of tokens; only a chat without a limit has the rest of the "
                  "context");
    }
    body.erase(length);
  }
  return {};
}

// Maps values that OpenAI's schema or other servers have and a job has not.
Status map_values(Endpoint endpoint, json& body) {
  MILLRACE_TRY(map_lengths(endpoint, body));
  if (const auto seed = body.find("seed"); seed != body.end() && seed->is_number_integer()) {
    *seed = seed->get<std::uint64_t>();  // OpenAI's is signed: the same 64 bits
  }
  if (const auto top_k = body.find("top_k"); top_k != body.end() && is_minus_one(*top_k)) {
    *top_k = 0U;  // vLLM's and llama-server's other word for "off"
  }
  const auto scored = body.find("prompt_logprobs");
  if (scored == body.end() || !scored->is_number()) return {};
  return fail(Code::invalid_value,
              "prompt_logprobs is " + scored->dump() + ", but the answer has no place for as many",
              "use \"echo\": true with logprobs in a completion; a line of a batch may have "
              "\"prompt_logprobs\": true and top_logprobs");
}

// A job may hold tools of any form, for templates of any kind; those of OpenAI's form are whole.
Status check_tools(const json& body) {
  const auto tools = body.find("tools");
  if (tools == body.end() || !tools->is_array()) return {};
  constexpr auto* form = R"(a tool is {"type": "function", "function": {"name": ...}})";
  for (std::size_t i = 0; i < tools->size(); ++i) {
    const json& tool = (*tools)[i];
    if (!tool.is_object() || tool.value("type", json()) != "function") continue;
    const std::string name = "tools[" + std::to_string(i) + "].function";
    const json function = tool.value("function", json());
    if (function.is_null()) return fail(Code::missing_field, name + " is absent", form);
    if (!function.is_object()) {
      return fail(Code::invalid_value, name + " is " + type_of(function) + ", not an object", form);
    }
    const json called = function.value("name", json());
    if (called.is_null()) return fail(Code::missing_field, name + ".name is absent", form);
    if (!called.is_string()) {
      return fail(Code::invalid_value, name + ".name is " + type_of(called) + ", not a string",
                  form);
    }
  }
  return {};
}

// OpenAI's messages hold the arguments of earlier calls as JSON inside a text, but chat templates
// write an object as JSON: a text would be quoted once more. A text that holds no object stays.
void open_arguments(json& body) {
  json& messages = body["messages"];
  if (!messages.is_array()) return;
  for (json& message : messages) {
    const auto calls = message.is_object() ? message.find("tool_calls") : message.end();
    if (calls == message.end() || !calls->is_array()) continue;
    for (json& call : *calls) {
      const auto function = call.is_object() ? call.find("function") : call.end();
      if (function == call.end() || !function->is_object()) continue;
      const auto arguments = function->find("arguments");
      if (arguments == function->end() || !arguments->is_string()) continue;
      const auto& text = arguments->get_ref<const std::string&>();
      if (!check_json(text)) continue;
      json object = json::parse(text, nullptr, false);
      if (object.is_object()) *arguments = std::move(object);
    }
  }
}

}  // namespace

std::string type_of(const json& value) {
  if (value.is_null()) return "null";
  if (value.is_number()) return value.is_number_float() ? "a number" : "a whole number";
  const std::string name = value.type_name();
  return (value.is_structured() ? "an " : "a ") + name;
}

void drop_nulls(json& object) {
  for (auto at = object.begin(); at != object.end();) {
    at = at->is_null() ? object.erase(at) : std::next(at);
  }
}

Result<json> packed_token_ids(const json& ids, const std::string& name) {
  if (!ids.is_array()) {
    return fail(Code::invalid_value, name + " is " + type_of(ids) + ", not an array of token ids",
                "write it like [504, 3, 88]");
  }
  std::vector<std::uint8_t> bytes;
  bytes.reserve(ids.size() * 4);
  for (std::size_t i = 0; i < ids.size(); ++i) {
    if (!ids[i].is_number_unsigned() || ids[i].get<std::uint64_t>() > UINT32_MAX) {
      return fail(Code::invalid_token,
                  name + "[" + std::to_string(i) + "] is " + ids[i].dump() + ", not a token id",
                  "ids are whole numbers from 0 on, less than the vocabulary's size");
    }
    const auto id = ids[i].get<std::uint32_t>();
    for (unsigned shift = 0; shift < 32; shift += 8) {
      bytes.push_back(static_cast<std::uint8_t>(id >> shift));
    }
  }
  return json::binary(std::move(bytes));
}

Result<json> job_of_body(Endpoint endpoint, json body) {
  drop_nulls(body);
  MILLRACE_TRY(check_prompt_field(endpoint, body));
  if (const auto stream = body.find("stream"); stream != body.end() && *stream == false) {
    body.erase(stream);
  }
  MILLRACE_TRY(check_names(body));
  MILLRACE_TRY(map_values(endpoint, body));
  if (endpoint == Endpoint::chat) {
    MILLRACE_TRY(check_tools(body));
    open_arguments(body);
    return body;
  }
  MILLRACE_TRY(map_prompt(body));
  if (const auto best_of = body.find("best_of");
      best_of != body.end() && *best_of == body.value("n", json(1))) {
    body.erase(best_of);  // as many candidates as choices: the field changes nothing
  }
  return body;
}

Result<json*> metadata_of(json& job) {
  json& metadata = job["metadata"];
  if (metadata.is_null()) metadata = json::object();
  if (metadata.is_object()) return &metadata;
  return fail(Code::invalid_value,
              "metadata is " + type_of(metadata) + ", not an object of strings",
              "write it like {\"key\": \"value\"}");
}

std::size_t metadata_size(const json& metadata) {
  std::size_t bytes = 0;
  for (const auto& [name, value] : metadata.items()) {
    bytes += name.size() + (value.is_string() ? value.get_ref<const std::string&>().size() : 0);
  }
  return bytes;
}

bool shows_tools(const json& job) {
  const auto tools = job.find("tools");
  return tools != job.end() && tools->is_array() && !tools->empty() &&
         job.value("tool_choice", json("auto")) != "none" &&
         job.value("task", json("generate")) != "score";
}

Status note_body(json& job, Endpoint endpoint) {
  MILLRACE_ASSIGN(json* const metadata, metadata_of(job));
  (*metadata)[shape_key] = endpoint == Endpoint::chat ? "chat" : "completion";
  if (endpoint != Endpoint::chat || !shows_tools(job)) return {};
  const std::size_t room = kept_for_notes - std::min(kept_for_notes, metadata_size(*metadata));
  (*metadata)[tools_key] = tools_note(job["tools"], std::min(room, most_tools_note_bytes));
  if (!job.contains("markers")) job["markers"] = "auto";
  return {};
}

}  // namespace millrace::openai
