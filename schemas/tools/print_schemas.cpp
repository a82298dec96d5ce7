// Writes the JSON Schemas of all messages, jobs and results from the tables of fields in C++:
//   print_schemas FOLDER    writes FOLDER/*.json, one schema each
// A test compares the folder with schemas/json; schemas/tools/generate.py makes the documentation.
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <utility>

#include "schemas/tools/json_types.hpp"

namespace millrace::schema {
namespace {

Json schema_head(const std::string& name, std::string_view about) {
  return {{"$schema", "https://json-schema.org/draft/2020-12/schema"},
          {"$id", name + ".json"},
          {"title", name},
          {"description", about}};
}

template <class Form>
inline constexpr bool is_list =
    std::is_same_v<std::decay_t<Form>, Ids> || std::is_same_v<std::decay_t<Form>, IdLists> ||
    std::is_same_v<std::decay_t<Form>, Texts> || std::is_same_v<std::decay_t<Form>, Biases>;

// The schema of a value that may be any of these.
Json one_of(AnyOf allowed) {
  return allowed.size() == 1 ? allowed.front() : Json{{"anyOf", std::move(allowed)}};
}

// Who writes a map. Producers write null for an absent field and use OpenAI's spellings; our own
// programs write one form.
enum class Source : std::uint8_t { producers, us };

// Collects the properties of a map from its table.
class Properties {
 public:
  explicit Properties(Source source) : source_(source) {}

  template <class T>
  void field(std::string_view name, const T& value, std::string_view about) {
    add(name, value, {TypeOf<T>::schema()}, about, {});
  }
  template <class T>
  void field(std::string_view name, const T& value, const auto& form, std::string_view about) {
    if constexpr (is_list<decltype(form)>) {
      // An engine may extend the lists that a job gave, beyond the limits of a job.
      if (source_ == Source::us) return field(name, value, about);
    }
    add(name, value, allowed<T>(form), about, limits_text(form));
    if constexpr (std::is_same_v<std::decay_t<decltype(form)>, Ids>) {
      if (form.none_is_wrong) properties_[name].erase("default");
    }
  }
  void beside(std::string_view name, const auto& value, const auto&... rest) {
    field(name, value, rest...);
  }
  void required(std::string_view name, const auto& value, const auto&... rest) {
    field(name, value, rest...);
    properties_[name].erase("default");
    required_.push_back(name);
  }
  template <class T>
  void alias(std::string_view name, const T& value, const auto& form, std::string_view main_name) {
    if (source_ == Source::us) return;
    field(name, value, form, "another name of `" + std::string(main_name) + "`");
    properties_[name].erase("default");
  }
  void known(std::string_view name, std::uint32_t neutral, std::string_view accepted) {
    Json out = Json::object();
    if (neutral != neutral_any) out["anyOf"] = neutral_values(neutral);
    out["x-neutral-only"] = true;
    out["description"] = "accepted: " + std::string(accepted);
    properties_[name] = std::move(out);
  }
  void sparse(const auto& part) { fields(*this, part); }
  void body(std::string_view name, const Body&, std::string_view what, std::string_view about) {
    optional_body(name, {}, what, about);
    required_.push_back(name);
  }
  void optional_body(std::string_view name, const Body&, std::string_view what,
                     std::string_view about) {
    properties_[name] = body_schema(what);
    properties_[name]["description"] = about;
  }
  void bodies(std::string_view name, const std::vector<Body>&, std::string_view what,
              std::string_view about) {
    properties_[name] = {{"type", "array"},
                         {"items", body_schema(what)},
                         {"maxItems", limits::list_items},
                         {"description", about}};
    required_.push_back(name);
  }

  void write_to(Json& schema) && {
    schema["type"] = "object";
    schema["properties"] = std::move(properties_);
    if (!required_.empty()) schema["required"] = std::move(required_);
  }

 private:
  template <class T>
  void add(std::string_view name, const T& value, AnyOf allowed, std::string_view about,
           const std::string& limits) {
    if (source_ == Source::producers) allowed.push_back({{"type", "null"}});
    Json out = one_of(std::move(allowed));
    if constexpr (has_default<T>) out["default"] = default_of(value);
    out["description"] = about;
    if (!limits.empty()) out["x-limits"] = limits;
    properties_[name] = std::move(out);
  }
  static Json body_schema(std::string_view what) {
    if (what == "job" || what == "result") return {{"$ref", std::string(what) + ".json"}};
    return reference(std::string(what));
  }
  static Json neutral_values(std::uint32_t neutral) {
    Json values = Json::array();
    if ((neutral & neutral_false) != 0) values.push_back(false);
    if ((neutral & neutral_true) != 0) values.push_back(true);
    if ((neutral & neutral_zero) != 0) values.push_back(0);
    if ((neutral & neutral_one) != 0) values.push_back(1);
    if ((neutral & neutral_empty) != 0) {
      values.insert(values.end(), {"", Json::array(), Json::object()});
    }
    if ((neutral & neutral_none_or_auto) != 0) values.insert(values.end(), {"none", "auto"});
    if ((neutral & neutral_text) != 0) {
      values.insert(values.end(), {"text", Json::array({"text"}), Json{{"type", "text"}}});
    }
    Json out = Json::array();
    if (!values.empty()) out.push_back({{"enum", std::move(values)}});
    out.push_back({{"type", "null"}});
    return out;
  }

  Source source_;
  Json properties_ = Json::object(), required_ = Json::array();
};

template <class T>
void add_properties(Json& schema, Source source = Source::us) {
  Properties properties(source);
  const T defaults{};
  fields(properties, defaults);
  std::move(properties).write_to(schema);
}

Json message_schema(std::size_t index) {
  const MessageKind& kind = message_kinds[index];
  Json out = schema_head(std::string(kind.name), kind.about);
  out["x-direction"] = kind.direction;
  [&]<std::size_t... i>(std::index_sequence<i...>) {
    ((i == index ? add_properties<std::variant_alternative_t<i, Message>>(out) : void()), ...);
  }
  (std::make_index_sequence<std::variant_size_v<Message>>());
  return out;
}

Json envelope_schema() {
  Json out = schema_head(
      "envelope", "The map in every frame. Keys come in any order; unknown ones are skipped.");
  Json kinds = Json::array(), bodies = Json::array();
  for (const MessageKind& kind : message_kinds) {
    kinds.push_back(kind.name);
    bodies.push_back(
        {{"if", {{"properties", {{"kind", {{"const", kind.name}}}}}, {"required", {"kind"}}}},
         {"then", {{"properties", {{"body", {{"$ref", std::string(kind.name) + ".json"}}}}}}}});
  }
  out["type"] = "object";
  out["properties"] = {
      {"v",
       {{"const", protocol_version},
        {"x-msgpack", "uint32"},
        {"description", "the protocol version; another one is refused (`unsupported_version`)"}}},
      {"kind", {{"enum", kinds}, {"description", "which message `body` is"}}},
      {"id", reference("uint64")},
      {"body", {{"type", "object"}, {"default", Json::object()}, {"description", "the message"}}}};
  out["properties"]["id"]["default"] = "0";
  out["properties"]["id"]["description"] =
      "chosen by the side that asks and repeated in the answer; 0 where there is no answer";
  out["required"] = {"v", "kind"};
  out["allOf"] = std::move(bodies);
  return out;
}

Json job_schema() {
  Json out = schema_head(
      "job",
      "What a producer asks for. A job holds only what differs from the defaults; null is absent. "
      "OpenAI's request bodies are jobs, because the names are the same. Fields marked "
      "`x-neutral-only` are known and not supported: a value that would change the text is refused "
      "(`unsupported_field`), never dropped. Unknown fields are left out with a warning in the "
      "result, or refused where `strict` is true.");
  add_properties<Job>(out, Source::producers);
  Json one = Json::array();
  for (const char* name : {"prompt", "tokens", "messages"}) {
    Json others = Json::array();
    for (const char* other : {"prompt", "tokens", "messages"}) {
      if (std::string_view(other) != name) others.push_back({{"required", {other}}});
    }
    one.push_back({{"required", {name}}, {"not", {{"anyOf", std::move(others)}}}});
  }
  out["oneOf"] = std::move(one);
  return out;
}

Json base64_of(const char* holds) {
  return {{"type", "string"},
          {"contentEncoding", "base64"},
          {"pattern", "^([A-Za-z0-9+/]{4})*([A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$"},
          {"x-msgpack", "bin"},
          {"x-holds", std::string(holds) + " little-endian"}};
}

template <class E>
void add_words(Json& defs) {
  defs[part_name<E>] = {{"type", "string"}, {"enum", wire::Names<E>::all}};
}
template <class T>
void add_part(Json& defs) {
  Json out = Json::object();
  add_properties<T>(out);
  defs[part_name<T>] = std::move(out);
}

Json common_schema() {
  Json defs = Json::object();
  defs["uint32"] = {
      {"type", "integer"}, {"minimum", 0}, {"maximum", UINT32_MAX}, {"x-msgpack", "uint32"}};
  defs["uint64"] = {
      {"type", "string"}, {"pattern", "^(0|[1-9][0-9]{0,19})$"}, {"x-msgpack", "uint64"}};
  defs["int64"] = {
      {"type", "string"}, {"pattern", "^(0|-?[1-9][0-9]{0,18})$"}, {"x-msgpack", "int64"}};
  defs["float32"] = {{"type", "number"}, {"x-msgpack", "float32"}};
  defs["float64"] = {{"type", "number"}, {"x-msgpack", "float64"}};
  defs["token_ids"] = base64_of("uint32");
  defs["logprobs"] = base64_of("float32");
  defs["strings_by_name"] = {{"type", "object"},
                             {"additionalProperties", {{"type", "string"}}},
                             {"maxProperties", limits::metadata_entries}};
  add_words<Role>(defs);
  add_words<Task>(defs);
  add_words<LogprobMode>(defs);
  add_words<PenaltyScope>(defs);
  add_words<ToolChoice>(defs);
  add_words<SamplingSource>(defs);
  add_words<JobState>(defs);
  add_words<FinishReason>(defs);
  add_words<MarkedPart>(defs);
  Json codes = Json::array();
#define X(name, ...) codes.push_back(#name);
  MILLRACE_ERROR_CODES(X)
#undef X
  defs["error_code"] = {
      {"type", "string"}, {"pattern", "^[a-z0-9_]+$"}, {"x-known", std::move(codes)}};
  add_part<Error>(defs);
  add_part<Marker>(defs);
  add_part<RepetitionDetection>(defs);
  add_part<ListedLogprobs>(defs);
  add_part<TokenLogprobs>(defs);
  add_part<Choice>(defs);
  add_part<Usage>(defs);
  add_part<EngineTimes>(defs);
  add_part<SuggestedSampling>(defs);
  add_part<EffectiveSettings>(defs);
  add_part<GenerationResult>(defs);
  add_part<SubmitAnswer>(defs);
  add_part<JobCounts>(defs);
  add_part<EngineInfo>(defs);
  add_part<TenantQueue>(defs);
  add_part<KeepLimits>(defs);
  add_part<StreamState>(defs);
  add_part<CursorState>(defs);
  add_part<JobInfo>(defs);
  add_part<BatchState>(defs);
  add_part<Entry>(defs);
  add_part<Lease>(defs);
  add_part<JobEnd>(defs);
  add_part<PartialEntry>(defs);
  Json out = schema_head("common", "Parts that several messages use.");
  out["$defs"] = std::move(defs);
  return out;
}

bool write(const std::filesystem::path& folder, const Json& schema) {
  std::ofstream file(folder / schema["$id"].get<std::string>());
  file << schema.dump(1) << '\n';
  return file.flush().good();
}

int run(const std::filesystem::path& folder) {
  bool written = write(folder, common_schema()) && write(folder, envelope_schema()) &&
                 write(folder, job_schema());
  Json result = schema_head("result",
                            "The end of one job: with a `result` where it is completed, or "
                            "cancelled after some text, else with an `error`.");
  add_properties<JobResult>(result);
  written = written && write(folder, result);
  for (std::size_t i = 0; written && i < message_kinds.size(); ++i) {
    written = write(folder, message_schema(i));
  }
  if (!written) std::fprintf(stderr, "print_schemas: cannot write to %s\n", folder.c_str());
  return written ? 0 : 1;
}

}  // namespace
}  // namespace millrace::schema

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: print_schemas FOLDER\n");
    return 2;
  }
  return millrace::schema::run(argv[1]);
}
