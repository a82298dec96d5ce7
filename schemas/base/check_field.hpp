#pragma once
// Checks one value against the form of its field (field.hpp); a visitor checks every field of a
// table. An error names the field, the value and what is allowed. Errors: invalid_value,
// limit_exceeded, invalid_utf8, empty_prompt. Thread safety: pure functions.
#include <concepts>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "schemas/base/error.hpp"
#include "schemas/base/field.hpp"
#include "schemas/base/generation.hpp"

namespace millrace {

// What errors call a field. Most fields have none, so the text is put together only for an error.
class FieldName {
 public:
  template <class Text>
  requires std::convertible_to<Text, std::string_view> FieldName(const Text& name) : name_(name) {}
  FieldName(std::string_view prefix, std::string_view name) : prefix_(prefix), name_(name) {}
  std::string text() const { return std::string(prefix_).append(name_); }

 private:
  std::string_view prefix_, name_;  // must outlive this object
};

std::string item_name(const FieldName& field, std::size_t index);  // "stop[3]"

// Error: limit_exceeded, such as "stop has 65 texts, the limit is 64".
Status check_size(const FieldName& field, std::uint64_t count, const char* unit,
                  std::uint64_t limit);

Status check_value(const FieldName& field, double value, const Range& form);
Status check_value(const FieldName& field, std::uint64_t value, const Count& form);
Status check_value(const FieldName& field, std::int64_t time_us, UnixTime);
Status check_value(const FieldName& field, const std::map<std::string, std::string>& strings,
                   const Dictionary& form);
Status check_value(const FieldName& field, const std::string& text, const Label& form);
Status check_value(const FieldName& field, const std::string& text, const Text& form);
Status check_value(const FieldName& field, const std::vector<std::string>& texts,
                   const Texts& form);
Status check_value(const FieldName& field, const std::vector<std::string>& labels,
                   const Labels& form);
Status check_value(const FieldName& field, const Tokens& ids, const Ids& form);
Status check_value(const FieldName& field, const std::vector<Tokens>& lists, const IdLists& form);
Status check_value(const FieldName& field, const std::vector<LogitBias>& biases,
                   const Biases& form);
Status check_value(const FieldName& field, const JsonList& list, const Objects& form);
Status check_value(const FieldName& field, const JsonObject& object, const Variables& form);
Status check_value(const FieldName& field, const Prompt& prompt, const Alternative<Tokens>& form);
Status check_value(const FieldName& field, const Prompt& prompt, const Alternative<Chat>& form);

// Walks a table and keeps the first error. It puts `prefix` before each name: "markers[2]." for the
// fields of a part.
class FieldChecker {
 public:
  explicit FieldChecker(std::string prefix = {}) : prefix_(std::move(prefix)) {}

  void field(std::string_view name, const auto& value, const auto& form, std::string_view) {
    check(FieldName(prefix_, name), value, form);
  }
  void field(std::string_view, const auto&, std::string_view) {}  // the type is the only check
  void beside(std::string_view name, const auto& value, const auto&... rest) {
    field(name, value, rest...);
  }
  void required(std::string_view name, const auto& value, const auto&... rest) {
    field(name, value, rest...);
  }
  void alias(std::string_view, const auto&, const auto&, std::string_view) {}
  void known(std::string_view, std::uint32_t, std::string_view) {}
  void body(const auto&...) {}  // who decodes a body checks it
  void optional_body(const auto&...) {}
  void bodies(const auto&...) {}

  Status take() && { return std::move(status_); }

 private:
  template <class T, class Form>
  void check(const FieldName& name, const T& value, const Form& form) {
    if (!status_) return;
    if constexpr (requires { *value; }) {
      if (value) check(name, *value, form);
    } else if constexpr (std::is_same_v<T, MarkerRequest>) {
      check_list(name, value.list, form);
    } else if constexpr (std::is_same_v<Form, Part>) {
      if (value != T{}) nested(name.text() + ".", value);
    } else if constexpr (std::is_floating_point_v<T>) {
      status_ = check_value(name, static_cast<double>(value), form);
    } else if constexpr (std::is_arithmetic_v<T> && std::is_same_v<Form, Range>) {
      status_ = check_value(name, static_cast<double>(value), form);
    } else if constexpr (requires { check_value(name, value, form); }) {
      status_ = check_value(name, value, form);
    }
  }
  template <class T>
  void check_list(const FieldName& name, const std::vector<T>& list, const Parts& form) {
    status_ = check_size(name, list.size(), "parts", form.most);
    for (std::size_t i = 0; i < list.size(); ++i) nested(item_name(name, i) + ".", list[i]);
  }
  void nested(std::string prefix, const auto& part) {
    if (!status_) return;
    FieldChecker inner(std::move(prefix));
    fields(inner, part);
    status_ = std::move(inner).take();
  }

  std::string prefix_;
  Status status_;
};

}  // namespace millrace
