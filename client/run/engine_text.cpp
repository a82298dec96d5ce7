#include "client/run/engine_text.hpp"

#include <array>
#include <cstdio>
#include <optional>
#include <string_view>

#include "schemas/base/number_text.hpp"
#include "schemas/describe.hpp"

namespace millrace::client {
namespace {

// Lists the fields that have a value: "temperature 0.6, top_k 20".
class ValueList {
 public:
  template <class T>
  void field(std::string_view name, const std::optional<T>& value, std::string_view) {
    if (value) text += (text.empty() ? "" : ", ") + std::string(name) + " " + shown(*value);
  }
  std::string text;

 private:
  static std::string shown(float value) { return number_text(value); }
  static std::string shown(std::uint32_t value) { return std::to_string(value); }
};

}  // namespace

std::string kv_text(const EngineProfile& engine) {
  const EngineFacts& facts = engine.facts;
  std::string out = "kv " + (facts.kv_policy.empty() ? "unknown" : facts.kv_policy);
  if (facts.kv_compression > 0) {
    std::array<char, 32> factor{};
    std::snprintf(factor.data(), factor.size(), " (%.1fx)", facts.kv_compression);
    out += factor.data();
  }
  return out;
}

std::string suggestion_text(const EngineProfile& engine) {
  const std::string& error = engine.suggested_sampling_error;
  if (!error.empty()) return "sampling that cannot be used: " + error;
  ValueList list;
  fields(list, engine.suggested_sampling);
  return list.text.empty() ? "" : list.text + " (used by jobs with \"sampling\": \"model\")";
}

std::string ready_text(const EngineProfile& engine) {
  const std::string suggestion = suggestion_text(engine);
  return "the engine is ready: model " + engine.facts.model +
         (engine.label.empty() ? "" : " (" + engine.label + ")") + ", " + kv_text(engine) +
         (engine.layer_path.empty() ? "" : ", " + engine.layer_path) +
         (suggestion.empty() ? "" : "; the model suggests " + suggestion);
}

}  // namespace millrace::client
