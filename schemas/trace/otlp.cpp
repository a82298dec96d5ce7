#include "schemas/trace/otlp.hpp"

#include <charconv>
#include <nlohmann/json.hpp>

#include "schemas/base/json_writer.hpp"

namespace millrace::trace {
namespace {

constexpr int status_error = 2;
constexpr std::string_view scope = "millrace";

// 64-bit numbers are texts in JSON, as protobuf's mapping has it.
std::string nanoseconds(std::int64_t us) {
  return us > 0 ? std::to_string(us) + "000" : "0";
}

struct ValueWriter {
  JsonWriter& json;
  void operator()(const std::string& text) const { json.field("stringValue", text); }
  void operator()(std::int64_t number) const { json.field("intValue", std::to_string(number)); }
  void operator()(double number) const { json.field("doubleValue", number); }
  void operator()(bool truth) const { json.field("boolValue", truth); }
  void operator()(const std::vector<std::string>& texts) const {
    json.key("arrayValue").begin_object().key("values").begin_array();
    for (const std::string& text : texts) {
      json.begin_object().field("stringValue", text).end_object();
    }
    json.end_array().end_object();
  }
};

void write(JsonWriter& json, const Attributes& attributes) {
  json.key("attributes").begin_array();
  for (const Attribute& attribute : attributes.list()) {
    json.begin_object().field("key", attribute.name).key("value").begin_object();
    std::visit(ValueWriter{json}, attribute.value);
    json.end_object().end_object();
  }
  json.end_array();
}

void write(JsonWriter& json, const Span& span) {
  json.begin_object().field("traceId", span.trace).field("spanId", span.id);
  if (!span.parent.empty()) json.field("parentSpanId", span.parent);
  if (!span.state.empty()) json.field("traceState", span.state);
  json.field("name", span.name).field("kind", static_cast<int>(span.kind));
  json.field("startTimeUnixNano", nanoseconds(span.start_us));
  json.field("endTimeUnixNano", nanoseconds(span.end_us));
  write(json, span.attributes);
  if (!span.events.empty()) {
    json.key("events").begin_array();
    for (const SpanEvent& event : span.events) {
      json.begin_object().field("timeUnixNano", nanoseconds(event.at_us));
      json.field("name", event.name);
      write(json, event.attributes);
      json.end_object();
    }
    json.end_array();
  }
  if (span.events_left_out > 0) json.field("droppedEventsCount", span.events_left_out);
  if (span.error) {
    json.key("status").begin_object().field("code", status_error);
    json.field("message", *span.error).end_object();
  }
  json.end_object();
}

std::uint64_t number_of(const nlohmann::json& value) {
  if (value.is_number_unsigned()) return value.get<std::uint64_t>();
  if (!value.is_string()) return 0;
  const auto& text = value.get_ref<const std::string&>();
  std::uint64_t number = 0;
  std::from_chars(text.data(), text.data() + text.size(), number);
  return number;
}

}  // namespace

std::string otlp_json(const Attributes& resource, std::span<const Span> spans) {
  std::string out;
  JsonWriter json(out);
  json.begin_object().key("resourceSpans").begin_array().begin_object();
  json.key("resource").begin_object();
  write(json, resource);
  json.end_object().key("scopeSpans").begin_array().begin_object();
  json.key("scope").begin_object().field("name", scope).end_object();
  json.key("spans").begin_array();
  for (const Span& span : spans) write(json, span);
  json.end_array().end_object().end_array().end_object().end_array().end_object();
  return out;
}

Partly read_answer(std::string_view body) {
  const auto answer = nlohmann::json::parse(body, nullptr, false);
  if (!answer.is_object()) return {};
  const auto partly = answer.find("partialSuccess");
  if (partly == answer.end() || !partly->is_object()) return {};
  Partly out;
  if (const auto rejected = partly->find("rejectedSpans"); rejected != partly->end()) {
    out.rejected = number_of(*rejected);
  }
  if (const auto message = partly->find("errorMessage");
      message != partly->end() && message->is_string()) {
    out.message = message->get<std::string>();
  }
  return out;
}

}  // namespace millrace::trace
