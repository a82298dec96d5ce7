// The codec against the golden vectors, whose bytes another implementation made
// (schemas/tools/generate.py), and against the schemas.
#include "tests/unit/schemas/vectors.hpp"

#include <gtest/gtest.h>

#include <bit>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>

#include "schemas/base/base64.hpp"
#include "schemas/describe.hpp"
#include "schemas/fields.hpp"
#include "schemas/names.hpp"

namespace millrace {
namespace {

using Json = nlohmann::json;

const std::string folder = MILLRACE_SOURCE_DIR "/schemas/";

std::string file_bytes(const std::string& path) {
  std::ifstream in(folder + path, std::ios::binary);
  EXPECT_TRUE(in) << path;
  return {std::istreambuf_iterator<char>(in), {}};
}
Json schema(const std::string& name) {
  return Json::parse(file_bytes("json/" + name + ".json"));
}

// Equality where NaN equals NaN: the bytes are compared as well, so this is for the members.
TEST(Vectors, JobsBothWays) {
  for (const auto& [name, job] : vectors::jobs()) {
    const std::string bytes = file_bytes("vectors/" + name + ".msgpack");
    EXPECT_EQ(encode_job(job), bytes) << name;
    const auto decoded = decode_job(bytes);
    ASSERT_TRUE(decoded) << name << ": " << decoded.error().text();
    EXPECT_EQ(decoded->job, job) << name;
    EXPECT_TRUE(decoded->warnings.empty());
  }
}

TEST(Vectors, ResultsBothWays) {
  for (const auto& [name, result] : vectors::results()) {
    const std::string bytes = file_bytes("vectors/" + name + ".msgpack");
    EXPECT_EQ(encode_result(result), bytes) << name;
    const auto decoded = decode_result(bytes);
    ASSERT_TRUE(decoded) << name << ": " << decoded.error().text();
    EXPECT_EQ(encode_result(*decoded), bytes) << name;
    EXPECT_EQ(decoded->state, result.state);
    EXPECT_EQ(decoded->error, result.error);
    EXPECT_EQ(decoded->metadata, result.metadata);
  }
}

TEST(Vectors, NanAndInfinityKeepTheirBits) {
  const auto decoded = decode_result(file_bytes("vectors/result-completed.msgpack")).value();
  const TokenLogprobs& prompt = *decoded.result->prompt_logprobs;
  EXPECT_EQ(std::bit_cast<std::uint32_t>(prompt.token[0]), 0x7FC00000u);
  EXPECT_EQ(decoded.result->choices[0].logprobs->top_logprobs[3],
            -std::numeric_limits<float>::infinity());
}

TEST(Vectors, EveryMessageBothWays) {
  const std::vector<Envelope> expected = vectors::envelopes();
  ASSERT_EQ(expected.size(), kind_names().size());
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const std::string name(kind_names()[i]);
    EXPECT_EQ(kind_name(expected[i].message), name);
    const std::string bytes = file_bytes("vectors/" + name + ".msgpack");
    EXPECT_EQ(encode(expected[i]), bytes) << name;
    const auto decoded = decode_envelope(bytes);
    ASSERT_TRUE(decoded) << name << ": " << decoded.error().text();
    EXPECT_EQ(decoded->id, expected[i].id);
    EXPECT_EQ(decoded->message, expected[i].message) << name;
    EXPECT_EQ(peek_id(bytes), expected[i].id);
  }
}

TEST(Vectors, WhatMustBeRefusedIs) {
  const Json refused = Json::parse(file_bytes("vectors/must-refuse.json"));
  ASSERT_GT(refused.size(), 30u);
  for (const Json& entry : refused) {
    const std::string bytes = base64_decode(entry["bytes"].get<std::string>()).value();
    const auto decoded = decode_envelope(bytes);
    ASSERT_FALSE(decoded) << entry["what"];
    EXPECT_EQ(code_name(decoded.error().code), entry["code"].get<std::string>()) << entry["what"];
    EXPECT_FALSE(decoded.error().message.empty());
  }
}

// ---- schemas

// A default value as the schemas write it: 64-bit integers as strings, bin as base64.
template <class T>
Json as_json(const T& value) {
  if constexpr (std::is_same_v<T, std::uint64_t> || std::is_same_v<T, std::int64_t>) {
    return std::to_string(value);
  } else if constexpr (std::is_same_v<T, Tokens> || std::is_same_v<T, std::vector<float>>) {
    return "";
  } else if constexpr (std::is_same_v<T, Code>) {
    return std::string(code_name(value));
  } else if constexpr (std::is_enum_v<T>) {
    return std::string(wire::to_name(value));
  } else if constexpr (std::is_same_v<T, float>) {
    char text[32];  // shortest, as a person writes it: 0.1
    return Json::parse(text, std::to_chars(text, text + sizeof text, value).ptr);
  } else if constexpr (std::is_arithmetic_v<T> || std::is_same_v<T, std::string>) {
    return value;
  } else if constexpr (requires { value.size(); }) {
    if constexpr (std::is_same_v<T, std::map<std::string, std::string>>) {
      EXPECT_TRUE(value.empty());
      return Json::object();
    } else {
      Json list = Json::array();
      for (const auto& item : value) list.push_back(as_json(item));
      return list;
    }
  } else {
    return nullptr;  // an optional or a map of its own: no default in the schema
  }
}

// Holds a message's list of fields against a schema's properties.
class SchemaCheck {
 public:
  SchemaCheck(Json schema, std::string name) : schema_(std::move(schema)), name_(std::move(name)) {}
  template <class T>
  void field(const char* field, const T& value) {
    const Json* property = find(field, false);
    if (property == nullptr) return;
    const Json standard = as_json(value);
    const bool given = property->contains("default");
    EXPECT_EQ(given, !standard.is_null()) << name_ << "." << field;
    if (given) {
      EXPECT_EQ((*property)["default"], standard) << name_ << "." << field;
    }
  }
  void required(const char* field, const auto&) { find(field, true); }
  void body(const char* field, const Body&) { find(field, true); }
  void bodies(const char* field, const std::vector<Body>&) { find(field, true); }
  void finish() {
    for (const auto& [key, value] : schema_["properties"].items()) {
      EXPECT_TRUE(seen_.contains(key)) << name_ << "." << key << " is in the schema only";
    }
  }

 private:
  const Json* find(const std::string& field, bool required) {
    seen_.insert(field);
    const Json& properties = schema_["properties"];
    EXPECT_TRUE(properties.contains(field)) << name_ << "." << field << " is not in the schema";
    bool found = false;
    for (const Json& entry : schema_.value("required", Json::array())) {
      found = found || entry == field;
    }
    EXPECT_EQ(found, required) << name_ << "." << field;
    return properties.contains(field) ? &properties[field] : nullptr;
  }
  Json schema_;
  std::string name_;
  std::set<std::string> seen_;
};

template <class M>
void check_schema(const Json& of, const std::string& name) {
  SchemaCheck check(of, name);
  const M defaults{};
  wire::describe(check, defaults);
  check.finish();
}

TEST(Schemas, MessagesHaveTheFieldsTheyDescribe) {
  [&]<std::size_t... i>(std::index_sequence<i...>) {
    (check_schema<std::variant_alternative_t<i, Message>>(schema(std::string(kind_names()[i])),
                                                          std::string(kind_names()[i])),
     ...);
  }
  (std::make_index_sequence<std::variant_size_v<Message>>());
  check_schema<JobResult>(schema("result"), "result");
}

TEST(Schemas, PartsHaveTheFieldsTheyDescribe) {
  const Json parts = schema("common")["$defs"];
  check_schema<Error>(parts["error"], "error");
  check_schema<Sampling>(parts["sampling"], "sampling");
  check_schema<Penalty>(parts["penalty"], "penalty");
  check_schema<LogitBias>(parts["logit_bias"], "logit_bias");
  check_schema<Dry>(parts["dry"], "dry");
  check_schema<LogitEdits>(parts["edits"], "edits");
  check_schema<Marker>(parts["marker"], "marker");
  check_schema<ListedLogprobs>(parts["listed_logprobs"], "listed_logprobs");
  check_schema<TokenLogprobs>(parts["token_logprobs"], "token_logprobs");
  check_schema<Choice>(parts["choice"], "choice");
  check_schema<Usage>(parts["usage"], "usage");
  check_schema<EngineTimes>(parts["engine_times"], "engine_times");
  check_schema<EffectiveSettings>(parts["effective_settings"], "effective_settings");
  check_schema<GenerationResult>(parts["generation_result"], "generation_result");
  check_schema<SubmitAnswer>(parts["submit_answer"], "submit_answer");
  check_schema<JobCounts>(parts["job_counts"], "job_counts");
  check_schema<EngineInfo>(parts["engine_info"], "engine_info");
  check_schema<Entry>(parts["entry"], "entry");
  check_schema<Lease>(parts["lease"], "lease");
  check_schema<PartialEntry>(parts["partial"], "partial");
  check_schema<JobEnd>(parts["job_end"], "job_end");
}

template <class E>
void check_words(const Json& of) {
  EXPECT_EQ(of["enum"].size(), wire::Names<E>::all.size());
  for (std::size_t i = 0; i < of["enum"].size(); ++i) {
    EXPECT_EQ(of["enum"][i], wire::Names<E>::all[i]);
  }
}

TEST(Schemas, WordsAndCodesAreTheSame) {
  const Json parts = schema("common")["$defs"];
  check_words<Task>(parts["task"]);
  check_words<LogprobMode>(parts["logprob_mode"]);
  check_words<PenaltyScope>(parts["penalty_scope"]);
  check_words<JobState>(parts["job_state"]);
  check_words<FinishReason>(parts["finish_reason"]);
  check_words<MarkedPart>(parts["marked_part"]);
  check_words<Role>(schema("hello")["properties"]["role"]);
  std::set<std::string> codes;
#define X(name, status, text) codes.insert(#name);
  MILLRACE_ERROR_CODES(X)
#undef X
  EXPECT_EQ(parts["error_code"]["x-known"].get<std::set<std::string>>(), codes);
}

TEST(Schemas, JobFieldsAreThoseOfTheTable) {
  const Json job = schema("job");
  std::set<std::string> names;
  for (const JobField& field : job_fields()) {
    names.insert(std::string(field.name));
    ASSERT_TRUE(job["properties"].contains(field.name)) << field.name;
    EXPECT_EQ(job["properties"][field.name].value("x-neutral-only", false), !field.supported)
        << field.name;
  }
  for (const auto& [key, value] : job["properties"].items())
    EXPECT_TRUE(names.contains(key)) << key;
}

}  // namespace
}  // namespace millrace
