#include "http/models.hpp"

#include <map>

#include "http/problem.hpp"
#include "schemas/base/json_writer.hpp"

namespace millrace::http {
namespace {

std::map<std::string, const EngineProfile*> models_of(const StatusAnswer& status) {
  std::map<std::string, const EngineProfile*> models;
  for (const EngineInfo& one : status.engines) models[one.engine.facts.model] = &one.engine;
  return models;
}

// The fields that OpenAI has, vLLM's length, and what decides the bits.
void write_model(JsonWriter& json, const EngineProfile& engine, std::int64_t created_s) {
  json.begin_object()
      .field("id", engine.facts.model)
      .field("object", "model")
      .field("created", created_s)
      .field("owned_by", "millrace")
      .field("root", engine.label.empty() ? engine.facts.model : engine.label)
      .field("max_model_len", engine.facts.context_tokens)
      .field("fingerprint", engine.facts.fingerprint)
      .end_object();
}

Response json_answer(std::string body) {
  return {.status = 200, .body = std::move(body), .type = "application/json", .headers = {}};
}

}  // namespace

Response models_answer(const StatusAnswer& status, std::int64_t created_s) {
  std::string body;
  JsonWriter json(body);
  json.begin_object().field("object", "list").key("data").begin_array();
  for (const auto& [id, engine] : models_of(status)) write_model(json, *engine, created_s);
  json.end_array().end_object();
  return json_answer(std::move(body));
}

Response model_answer(const StatusAnswer& status, std::string_view id, std::int64_t created_s) {
  const auto models = models_of(status);
  const auto found = models.find(std::string(id));
  if (found == models.end()) {
    return problem({Code::unknown_model,
                    "model '" + std::string(id) + "' is served by no engine",
                    "GET /v1/models lists those that are",
                    {}});
  }
  std::string body;
  JsonWriter json(body);
  write_model(json, *found->second, created_s);
  return json_answer(std::move(body));
}

Response ready_answer(const Result<StatusAnswer>& status) {
  if (!status) {
    // A token that may not ask says nothing about the server, which a load balancer would take out.
    const Error& error = status.error();
    return error.code == Code::unauthorized ? problem(error) : problem(error, 503);
  }
  if (status->draining) return problem({Code::draining, "the broker is shutting down", {}, {}});
  if (status->engines.empty()) {
    return problem({Code::unreachable,
                    "no engine is connected",
                    "start millrace-engine, or wait until it has loaded its model",
                    {}});
  }
  std::string body;
  JsonWriter(body)
      .begin_object()
      .field("status", "ready")
      .field("engines", std::uint64_t{status->engines.size()})
      .end_object();
  return json_answer(std::move(body));
}

}  // namespace millrace::http
