#pragma once
// Maps each C++ type and form of the field tables to a JSON Schema. JSON stands for msgpack here:
// 64-bit integers are strings, `bin` is base64 (schemas/README.md). Thread safety: pure functions.
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

#include "schemas/base/number_text.hpp"
#include "schemas/describe.hpp"
#include "schemas/names.hpp"

namespace millrace::schema {

using Json = nlohmann::ordered_json;

// The name of a type in common.json's $defs.
template <class T>
inline constexpr const char* part_name = nullptr;
#define MILLRACE_PART(T, name) \
  template <>                  \
  inline constexpr const char* part_name<T> = name
MILLRACE_PART(Error, "error");
MILLRACE_PART(Marker, "marker");
MILLRACE_PART(RepetitionDetection, "repetition_detection");
MILLRACE_PART(ListedLogprobs, "listed_logprobs");
MILLRACE_PART(TokenLogprobs, "token_logprobs");
MILLRACE_PART(Choice, "choice");
MILLRACE_PART(Usage, "usage");
MILLRACE_PART(EngineTimes, "engine_times");
MILLRACE_PART(SuggestedSampling, "suggested_sampling");
MILLRACE_PART(EffectiveSettings, "effective_settings");
MILLRACE_PART(GenerationResult, "generation_result");
MILLRACE_PART(SubmitAnswer, "submit_answer");
MILLRACE_PART(JobCounts, "job_counts");
MILLRACE_PART(EngineInfo, "engine_info");
MILLRACE_PART(TenantQueue, "tenant_queue");
MILLRACE_PART(KeepLimits, "keep_limits");
MILLRACE_PART(StreamState, "stream_state");
MILLRACE_PART(CursorState, "cursor_state");
MILLRACE_PART(JobInfo, "job_info");
MILLRACE_PART(BatchState, "batch_state");
MILLRACE_PART(Entry, "entry");
MILLRACE_PART(Lease, "lease");
MILLRACE_PART(JobEnd, "job_end");
MILLRACE_PART(PartialEntry, "partial");
MILLRACE_PART(Role, "role");
MILLRACE_PART(Task, "task");
MILLRACE_PART(JobState, "job_state");
MILLRACE_PART(FinishReason, "finish_reason");
MILLRACE_PART(MarkedPart, "marked_part");
MILLRACE_PART(LogprobMode, "logprob_mode");
MILLRACE_PART(PenaltyScope, "penalty_scope");
MILLRACE_PART(ToolChoice, "tool_choice");
MILLRACE_PART(SamplingSource, "sampling_source");
#undef MILLRACE_PART

inline Json reference(const std::string& name) {
  return {{"$ref", "common.json#/$defs/" + name}};
}
// A float as the shortest decimal that gives the same float again.
inline Json number(double value) {
  return Json::parse(number_text(static_cast<float>(value)));
}

// ---- by type
template <class T>
struct TypeOf {
  static Json schema() { return reference(part_name<T>); }
};
template <>
struct TypeOf<bool> {
  static Json schema() { return {{"type", "boolean"}}; }
};
template <>
struct TypeOf<std::uint32_t> {
  static Json schema() { return reference("uint32"); }
};
template <>
struct TypeOf<std::uint64_t> {
  static Json schema() { return reference("uint64"); }
};
template <>
struct TypeOf<std::int64_t> {
  static Json schema() { return reference("int64"); }
};
template <>
struct TypeOf<float> {
  static Json schema() { return reference("float32"); }
};
template <>
struct TypeOf<double> {
  static Json schema() { return reference("float64"); }
};
template <>
struct TypeOf<std::string> {
  static Json schema() { return {{"type", "string"}}; }
};
template <>
struct TypeOf<Code> {
  static Json schema() { return reference("error_code"); }
};
template <>
struct TypeOf<Tokens> {
  static Json schema() { return reference("token_ids"); }
};
template <>
struct TypeOf<std::vector<float>> {
  static Json schema() { return reference("logprobs"); }
};
template <>
struct TypeOf<std::map<std::string, std::string>> {
  static Json schema() { return reference("strings_by_name"); }
};
inline Json bias_pair(Json value) {
  return {{"type", "array"},
          {"minItems", 2},
          {"maxItems", 2},
          {"prefixItems", {reference("uint32"), std::move(value)}}};
}
template <>
struct TypeOf<LogitBias> {
  static Json schema() { return bias_pair(reference("float32")); }
};
template <class T>
struct TypeOf<std::optional<T>> {
  static Json schema() { return TypeOf<T>::schema(); }
};
template <class T>
struct TypeOf<std::vector<T>> {
  static Json schema() {
    return {{"type", "array"}, {"items", TypeOf<T>::schema()}, {"maxItems", limits::list_items}};
  }
};

// ---- by form, where it says more than the type: a list of what is allowed
using AnyOf = std::vector<Json>;

inline Json text(std::uint64_t least, std::uint64_t most) {
  return {{"type", "string"}, {"minLength", least}, {"maxLength", most}};
}
inline Json id_array(std::uint64_t least, std::uint64_t most) {
  Json out = {{"type", "array"}, {"items", reference("uint32")}};
  if (least > 0) out["minItems"] = least;
  if (most > 0) out["maxItems"] = most;
  return out;
}
template <class T>
AnyOf allowed(const Range& form) {
  Json out = TypeOf<T>::schema();
  if constexpr (std::is_same_v<T, std::uint32_t>) {
    out = {{"type", "integer"}, {"x-msgpack", "uint32"}};
  }
  out[form.above_least ? "exclusiveMinimum" : "minimum"] = number(form.least);
  out["maximum"] = number(form.most);
  return {out};
}
template <class T>
AnyOf allowed(const Count& form) {
  return {{{"type", "integer"},
           {"minimum", form.least},
           {"maximum", form.most},
           {"x-msgpack", "uint32"}}};
}
template <class T>
AnyOf allowed(UnixTime) {
  return {reference("int64")};
}
template <class T>
AnyOf allowed(const Label& form) {
  AnyOf out = {text(form.required ? 1 : 0, form.most_bytes)};
  if (form.false_is_absent) out.push_back({{"const", false}});
  return out;
}
template <class T>
AnyOf allowed(const Text& form) {
  return {text(form.required ? 1 : 0, form.most_bytes)};
}
template <class T>
AnyOf allowed(const Texts& form) {
  const Json one = text(1, form.most_bytes);
  const Json list = {{"type", "array"}, {"items", one}, {"maxItems", form.most}};
  return form.or_one ? AnyOf{one, list} : AnyOf{list};
}
template <class T>
AnyOf allowed(const Ids& form) {
  return {reference("token_ids"), id_array(form.none_is_wrong ? 1 : 0, form.most)};
}
template <class T>
AnyOf allowed(const IdLists& form) {
  const Json one = {{"anyOf", {reference("token_ids"), id_array(1, form.most_ids)}}};
  return {{{"type", "array"}, {"items", one}, {"maxItems", form.most}}};
}
template <class T>
AnyOf allowed(const Biases& form) {
  const Json value = allowed<float>(Range{-form.value, form.value}).front();
  return {
      {{"type", "object"}, {"maxProperties", limits::map_keys}, {"additionalProperties", value}},
      {{"type", "array"}, {"items", bias_pair(value)}, {"maxItems", form.most}}};
}
template <class T>
AnyOf allowed(const Dictionary&) {
  return {reference("strings_by_name")};
}
template <class T>
AnyOf allowed(const Parts& form) {
  const Json list = {
      {"type", "array"}, {"items", TypeOf<Marker>::schema()}, {"maxItems", form.most}};
  return {{{"enum", wire::Names<KnownMarkers>::all}}, list};
}
template <class T>
AnyOf allowed(Part) {
  return {TypeOf<T>::schema()};
}
template <class T>
AnyOf allowed(const Labels& form) {
  return {{{"type", "array"}, {"items", text(1, form.most_bytes)}, {"maxItems", form.most}}};
}
template <class T>
AnyOf allowed(const FlagOrTop& form) {
  return {{{"type", "boolean"}}, allowed<T>(Count{form.most}).front()};
}
template <class T>
AnyOf allowed(Word) {
  return {TypeOf<T>::schema()};
}
template <class T>
AnyOf allowed(const Objects& form) {
  return {{{"type", "array"}, {"items", {{"type", "object"}}}, {"maxItems", form.most}}};
}
template <class T>
AnyOf allowed(const Variables& form) {
  return {{{"type", "object"}, {"maxProperties", form.most}}};
}
template <class T>
AnyOf allowed(const Alternative<std::string>&) {
  const auto one = [](Json item) {
    return Json{{"type", "array"}, {"items", std::move(item)}, {"minItems", 1}, {"maxItems", 1}};
  };
  return {{{"type", "string"}}, id_array(1, 0), one({{"type", "string"}}), one(id_array(0, 0))};
}
template <class T>
AnyOf allowed(const Alternative<Tokens>&) {
  return {reference("token_ids"), id_array(1, 0)};
}
template <class T>
AnyOf allowed(const Alternative<Chat>& form) {
  const Json part = {
      {"type", "object"},
      {"properties", {{"type", {{"const", "text"}}}, {"text", {{"type", "string"}}}}},
      {"required", {"type", "text"}}};
  const Json parts = {{"type", "array"}, {"items", part}};
  const Json message = {
      {"type", "object"},
      {"properties",
       {{"role", text(1, limits::id_bytes)},
        {"content",
         {{"anyOf", Json::array({Json{{"type", "string"}}, parts, {{"type", "null"}}})}}}}},
      {"required", {"role"}},
      {"additionalProperties", Json::object()}};
  return {{{"type", "array"}, {"minItems", 1}, {"maxItems", form.most}, {"items", message}}};
}

// ---- defaults
template <class T>
Json default_of(const T& value) {
  if constexpr (std::is_same_v<T, Code>) {
    return code_name(value);
  } else if constexpr (std::is_enum_v<T>) {
    return wire::to_name(value);
  } else if constexpr (std::is_same_v<T, std::uint64_t> || std::is_same_v<T, std::int64_t>) {
    return std::to_string(value);
  } else if constexpr (std::is_floating_point_v<T>) {
    return number(static_cast<double>(value));
  } else if constexpr (std::is_same_v<T, Tokens> || std::is_same_v<T, std::vector<float>>) {
    return "";  // base64 of nothing
  } else if constexpr (std::is_same_v<T, LogprobRequest>) {
    return value.sampled;
  } else if constexpr (std::is_same_v<T, std::map<std::string, std::string>> ||
                       std::is_same_v<T, JsonObject>) {
    return Json::object();
  } else if constexpr (requires { Json(value); }) {
    return Json(value);
  } else {
    return Json::array();  // a list of parts
  }
}
// Parts and optional fields have no default: they are absent.
template <class T>
inline constexpr bool has_default = !(std::is_class_v<T> && part_name<T> != nullptr) &&
                                    !std::is_same_v<T, Prompt> && !std::is_same_v<T, MarkerRequest>;
template <class T>
inline constexpr bool has_default<std::optional<T>> = false;

}  // namespace millrace::schema
