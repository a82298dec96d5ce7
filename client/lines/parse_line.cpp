#include "client/lines/parse_line.hpp"

#include <nlohmann/json.hpp>
#include <utility>

#include "client/lines/check_json.hpp"
#include "schemas/codec.hpp"

namespace millrace::client {
namespace {

using json = nlohmann::ordered_json;  // a chat template sees the fields in their order

// ---- values

// "a string", "an array"
std::string type_of(const json& value) {
  if (value.is_null()) return "null";
  if (value.is_number()) return value.is_number_float() ? "a number" : "a whole number";
  const std::string name = value.type_name();
  return (value.is_structured() ? "an " : "a ") + name;
}

// A null means "not given" in OpenAI's API and its many clients; in a job map the field is absent.
void drop_nulls(json& job) {
  for (auto at = job.begin(); at != job.end();) {
    at = at->is_null() ? job.erase(at) : std::next(at);
  }
}

// Packs token ids as the job map holds them: a `bin` of little-endian uint32.
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

// ---- OpenAI bodies

Error unsupported(const std::string& what, std::string hint) {
  return {Code::unsupported_field, what + " is not supported", std::move(hint)};
}

std::unexpected<Error> no_streaming(const json& stream) {
  return fail(unsupported("stream: " + stream.dump(), "omit it: each line gets one whole result"));
}

// Maps what both endpoints share, and refuses names that mean something else in a job map.
Status map_common_fields(json& body) {
  if (const auto stream = body.find("stream"); stream != body.end()) {
    if (*stream != false) {
      return no_streaming(*stream);
    }
    body.erase(stream);
  }
  for (const char* name : {"id", "custom_id", "batch", "tokens", "task", "deadline_us"}) {
    if (body.contains(name)) {
      return fail(Code::invalid_value,
                  std::string("\"") + name + "\" is not a field of an OpenAI body",
                  "put it beside \"body\", or write the line as a plain job");
    }
  }
  return {};
}

Result<json> job_of_chat_body(json body) {
  drop_nulls(body);
  if (!body.contains("messages")) {
    return fail(Code::missing_field, "body has no messages",
                body.contains("prompt") ? "give an array of {role, content}, or write the prompt's "
                                          "url, /v1/completions"
                                        : "give an array of {role, content}");
  }
  if (body.contains("prompt")) {
    return fail(Code::invalid_value, "a chat body cannot have a prompt",
                "use /v1/completions for a prompt");
  }
  MILLRACE_TRY(map_common_fields(body));
  return body;
}

Status map_completion_prompt(json& body) {
  json& prompt = body["prompt"];
  if (!prompt.is_array()) {
    return {};
  }
  if (prompt.size() == 1 && (prompt[0].is_string() || prompt[0].is_array())) {
    prompt = json(prompt[0]);
  } else if (prompt.size() > 1 && (prompt[0].is_string() || prompt[0].is_array())) {
    return fail(Code::invalid_value, "prompt holds " + std::to_string(prompt.size()) + " prompts",
                "write one line for each prompt");
  }
  if (prompt.is_array()) {
    MILLRACE_ASSIGN(body["tokens"], packed_token_ids(prompt, "prompt"));
    body.erase("prompt");
  }
  return {};
}

Result<json> job_of_completion_body(json body) {
  drop_nulls(body);
  if (!body.contains("prompt")) {
    return fail(Code::missing_field, "body has no prompt",
                body.contains("messages")
                    ? "give a text or an array of token ids, or write the url of messages, "
                      "/v1/chat/completions"
                    : "give a text or an array of token ids");
  }
  if (body.contains("messages")) {
    return fail(Code::invalid_value, "a completion body cannot have messages",
                "use /v1/chat/completions for a chat");
  }
  MILLRACE_TRY(map_common_fields(body));
  MILLRACE_TRY(map_completion_prompt(body));
  if (const auto best_of = body.find("best_of");
      best_of != body.end() && *best_of == body.value("n", json(1))) {
    body.erase(best_of);  // as many candidates as choices: the field changes nothing
  }
  return body;
}

// ---- lines

bool is_openai_line(const json& line) {
  return line.contains("body") || line.contains("url") || line.contains("method");
}

Result<Shape> shape_of_url(const json& line) {
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
  if (*url == "/v1/chat/completions") {
    return Shape::chat;
  }
  if (*url == "/v1/completions") {
    return Shape::completion;
  }
  return fail(Code::invalid_value, "url " + url->dump() + " is not supported",
              "use /v1/chat/completions or /v1/completions");
}

// Returns the job map of an OpenAI line. Sets `shape` as soon as it is known.
Result<json> job_of_openai_line(json& line, Shape& shape) {
  MILLRACE_ASSIGN(shape, shape_of_url(line));
  const auto body = line.find("body");
  if (body == line.end()) {
    return fail(Code::missing_field, "the line has no body", "put the request into \"body\"");
  }
  if (!body->is_object()) {
    return fail(Code::invalid_value, "body is " + type_of(*body) + ", not an object",
                "put the request into \"body\"");
  }
  json job;
  if (shape == Shape::chat) {
    MILLRACE_ASSIGN(job, job_of_chat_body(std::move(*body)));
  } else {
    MILLRACE_ASSIGN(job, job_of_completion_body(std::move(*body)));
  }
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
    MILLRACE_ASSIGN(json packed, packed_token_ids(*tokens, "tokens"));
    *tokens = std::move(packed);
  }
  return std::move(line);
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
  if (parsed.shape == Shape::plain && !first_use && !named && !labelled_by_id) {
    return {};
  }
  json& metadata = job["metadata"];
  if (metadata.is_null()) {
    metadata = json::object();
  }
  if (!metadata.is_object()) {
    return fail(Code::invalid_value,
                "metadata is " + type_of(metadata) + ", not an object of strings",
                "write it like {\"key\": \"value\"}");
  }
  if (parsed.shape != Shape::plain) {
    metadata[shape_key] = parsed.shape == Shape::chat ? "chat" : "completion";
  }
  if (first_use) {
    metadata[duplicate_key] = std::to_string(*first_use);
  }
  if (named) {
    metadata[model_key] = *named;
  }
  if (labelled_by_id) {
    metadata[label_key] = *parsed.custom_id;
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
  MILLRACE_TRY(check_json(line.text));
  json value = json::parse(line.text, nullptr, false);
  if (!value.is_object()) {
    return fail(Code::invalid_json, "the line holds " + type_of(value) + ", not an object",
                "write one JSON object on each line");
  }
  drop_nulls(value);
  if (const auto id = value.find("custom_id"); id != value.end()) {
    if (!id->is_string()) {
      return fail(Code::invalid_value, "custom_id is " + type_of(*id) + ", not a string",
                  "put it in quotes");
    }
    parsed.custom_id = id->get<std::string>();
  }
  json job;
  if (is_openai_line(value)) {
    MILLRACE_ASSIGN(job, job_of_openai_line(value, parsed.shape));
  } else {
    MILLRACE_ASSIGN(job, job_of_plain_line(value));
  }
  drop_nulls(job);
  MILLRACE_TRY(complete_job(job, options, parsed));
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
