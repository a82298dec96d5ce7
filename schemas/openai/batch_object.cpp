#include "schemas/openai/batch_object.hpp"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <utility>

namespace millrace::openai {
namespace {

constexpr std::array<std::string_view, 8> status_names = {"validating", "failed",    "in_progress",
                                                          "finalizing", "completed", "expired",
                                                          "cancelling", "cancelled"};

using Time = std::optional<std::int64_t> BatchObject::*;
constexpr std::array<std::pair<const char*, Time>, 7> times = {{
    {"in_progress_at", &BatchObject::in_progress_s},
    {"finalizing_at", &BatchObject::finalizing_s},
    {"completed_at", &BatchObject::completed_s},
    {"failed_at", &BatchObject::failed_s},
    {"expired_at", &BatchObject::expired_s},
    {"cancelling_at", &BatchObject::cancelling_s},
    {"cancelled_at", &BatchObject::cancelled_s},
}};

void text_or_null(JsonWriter& json, std::string_view name, const std::string& text) {
  json.key(name);
  if (text.empty()) {
    json.null();
  } else {
    json.value(text);
  }
}

void write_errors(JsonWriter& json, const std::vector<BatchError>& errors) {
  json.key("errors");
  if (errors.empty()) {
    json.null();
    return;
  }
  json.begin_object().field("object", "list").key("data").begin_array();
  for (const BatchError& error : errors) {
    json.begin_object().field("code", error.code).field("message", error.message);
    text_or_null(json, "param", error.param);
    json.key("line");
    if (error.line) {
      json.value(*error.line);
    } else {
      json.null();
    }
    json.end_object();
  }
  json.end_array().end_object();
}

std::string text_of(const nlohmann::json& value) {
  return value.is_null() ? std::string() : value.get<std::string>();
}

void read_errors(const nlohmann::json& value, BatchObject& batch) {
  if (value.is_null()) return;
  for (const auto& one : value.at("data")) {
    BatchError error{.code = one.at("code"), .message = one.at("message")};
    error.param = text_of(one.at("param"));
    if (!one.at("line").is_null()) error.line = one["line"].get<std::uint64_t>();
    batch.errors.push_back(std::move(error));
  }
}

}  // namespace

std::string_view status_name(BatchStatus status) {
  return status_names[static_cast<std::size_t>(status)];
}

void write_batch(JsonWriter& json, const BatchObject& batch) {
  json.begin_object().field("id", batch.id).field("object", "batch");
  json.field("endpoint", path_of(batch.endpoint));
  write_errors(json, batch.errors);
  json.field("input_file_id", batch.input_file)
      .field("completion_window", batch.window)
      .field("status", status_name(batch.status));
  text_or_null(json, "output_file_id", batch.output_file);
  text_or_null(json, "error_file_id", batch.error_file);
  json.field("created_at", batch.created_s).field("expires_at", batch.expires_s);
  for (const auto& [name, member] : times) {
    json.key(name);
    if (batch.*member) {
      json.value(*(batch.*member));
    } else {
      json.null();
    }
  }
  json.key("request_counts")
      .begin_object()
      .field("total", batch.total)
      .field("completed", batch.completed)
      .field("failed", batch.failed)
      .end_object();
  json.key("metadata");
  if (batch.metadata.empty()) {
    json.null();
  } else {
    json.begin_object();
    for (const auto& [name, value] : batch.metadata) json.field(name, value);
    json.end_object();
  }
  json.end_object();
}

std::string batch_json(const BatchObject& batch) {
  std::string out;
  JsonWriter json(out);
  write_batch(json, batch);
  return out;
}

Result<BatchObject> read_batch(std::string_view text) {
  try {
    const auto value = nlohmann::json::parse(text);
    BatchObject batch;
    value.at("id").get_to(batch.id);
    const auto endpoint = endpoint_of(value.at("endpoint").get<std::string>());
    const auto status =
        std::ranges::find(status_names, value.at("status").get_ref<const std::string&>());
    if (!endpoint || status == status_names.end()) {
      return fail(Code::ledger_corrupt, "a batch's record has another endpoint or status");
    }
    batch.endpoint = *endpoint;
    batch.status = static_cast<BatchStatus>(status - status_names.begin());
    read_errors(value.at("errors"), batch);
    value.at("input_file_id").get_to(batch.input_file);
    value.at("completion_window").get_to(batch.window);
    batch.output_file = text_of(value.at("output_file_id"));
    batch.error_file = text_of(value.at("error_file_id"));
    value.at("created_at").get_to(batch.created_s);
    value.at("expires_at").get_to(batch.expires_s);
    for (const auto& [name, member] : times) {
      if (!value.at(name).is_null()) batch.*member = value[name].get<std::int64_t>();
    }
    value.at("request_counts").at("total").get_to(batch.total);
    value["request_counts"].at("completed").get_to(batch.completed);
    value["request_counts"].at("failed").get_to(batch.failed);
    if (!value.at("metadata").is_null()) value["metadata"].get_to(batch.metadata);
    return batch;
  } catch (const nlohmann::json::exception& error) {
    return fail(Code::ledger_corrupt,
                std::string("a batch's record cannot be read: ") + error.what());
  }
}

}  // namespace millrace::openai
