#include "broker/core/audit_text.hpp"

#include <cstdint>
#include <optional>
#include <string_view>
#include <type_traits>

#include "schemas/codec.hpp"
#include "schemas/describe.hpp"

namespace millrace::broker {
namespace {

// A visitor of the fields of a message: adds those that have a value which can be shown.
class FieldsText {
 public:
  void field(std::string_view name, const auto& value, const auto&...) { add(name, value); }
  void required(std::string_view name, const auto& value, const auto&...) { add(name, value); }
  void body(const auto&...) {}
  void optional_body(const auto&...) {}
  void bodies(const auto&...) {}
  void sparse(const auto& part) { fields(*this, part); }
  std::string text;

 private:
  template <class T>
  void add(std::string_view name, const T& value) {
    if constexpr (std::is_same_v<T, std::string>) {
      if (!value.empty()) show(name, value);
    } else if constexpr (std::is_same_v<T, bool>) {
      show(name, value ? "true" : "false");
    } else if constexpr (std::is_integral_v<T>) {
      show(name, std::to_string(value));
    } else if constexpr (std::is_same_v<T, std::optional<std::uint64_t>>) {
      if (value) add(name, *value);
    } else if constexpr (std::is_same_v<T, KeepLimits>) {
      fields(*this, value);
    }  // no message of an administrator has anything else
  }
  void show(std::string_view name, const std::string& value) {
    text += " " + std::string(name) + "=" + value;
  }
};

}  // namespace

std::string audit_text(const Message& message) {
  FieldsText shown;
  std::visit([&](const auto& one) { fields(shown, one); }, message);
  return std::string(kind_name(message)) + shown.text;
}

}  // namespace millrace::broker
