#pragma once
// A visitor of field tables (schemas/describe_result.hpp) that writes each field as a member of the
// open JSON object. 64-bit integers are numbers, token ids arrays, enumerations words. Absent
// optional fields are left out, labels that nobody gave are null. Thread safety: as JsonWriter.
#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "schemas/base/changed_fields.hpp"
#include "schemas/base/json_writer.hpp"
#include "schemas/describe.hpp"
#include "schemas/names.hpp"

namespace millrace {

class JsonFields {
 public:
  explicit JsonFields(JsonWriter& json) : json_(json) {}

  void field(std::string_view name, const auto& value, const auto&...) {
    json_.key(name);
    write(value);
  }
  template <class T>
  void field(std::string_view name, const std::optional<T>& value, const auto&...) {
    if (value) field(name, *value);
  }
  // A label that nobody gave is null, as it is in the lines of results.
  void field(std::string_view name, const std::string& value, const auto&...) {
    json_.key(name);
    const bool label = std::ranges::find(labels, name) != std::end(labels);
    label&& value.empty() ? json_.null() : json_.value(value);
  }
  void required(std::string_view name, const auto& value, const auto&...) { field(name, value); }
  // Writes the fields of the part that differ from their defaults.
  void sparse(const auto& part) {
    Only visitor{*this, changed_names(part, [](auto& v, const auto& of) { fields(v, of); })};
    fields(visitor, part);
  }
  void alias(const auto&...) {}

 private:
  static constexpr std::string_view labels[] = {"custom_id", "batch", "engine"};

  struct Only {
    JsonFields& to;
    std::vector<std::string_view> names;
    void field(std::string_view name, const auto& value, const auto&...) {
      if (std::ranges::find(names, name) != names.end()) to.field(name, value);
    }
    void alias(const auto&...) {}
  };

  template <class T>
  void write(const T& value) {
    if constexpr (std::is_same_v<T, Code>) {
      json_.value(code_name(value));
    } else if constexpr (std::is_enum_v<T>) {
      json_.value(wire::to_name(value));
    } else if constexpr (requires { json_.value(value); }) {
      json_.value(value);
    } else {
      json_.begin_object();
      fields(*this, value);
      json_.end_object();
    }
  }
  template <class T>
  void write(const std::vector<T>& list) {
    json_.begin_array();
    for (const T& item : list) write(item);
    json_.end_array();
  }
  void write(const std::map<std::string, std::string>& entries) {
    json_.begin_object();
    for (const auto& [name, value] : entries) json_.field(name, value);
    json_.end_object();
  }
  void write(const LogitBias& bias) {
    json_.begin_array().value(bias.token).value(bias.bias).end_array();
  }

  JsonWriter& json_;
};

// Writes the value's fields as members of the open object.
void write_fields(JsonWriter& json, const auto& value) {
  JsonFields visitor(json);
  fields(visitor, value);
}

}  // namespace millrace
