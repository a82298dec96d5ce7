#include "broker/core/audit_text.hpp"

#include <cstdint>
#include <map>
#include <optional>
#include <string_view>
#include <type_traits>

#include "broker/core/overloaded.hpp"
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
    } else if constexpr (std::is_same_v<T, std::map<std::string, std::string>>) {
      std::string names;
      for (const auto& [key, text] : value) names += (names.empty() ? "" : ",") + key;
      add(name, names);
    }  // other fields name jobs, and what names jobs is not audited
  }
  void show(std::string_view name, const std::string& value) {
    text += " " + std::string(name) + "=" + value;
  }
};

}  // namespace

bool is_audited(const Message& message) {
  return std::visit(
      Overloaded{[](const Trim&) { return true; }, [](const Keep&) { return true; },
                 [](const Remove&) { return true; }, [](const BackupRequest&) { return true; },
                 [](const DrainRequest&) { return true; }, [](const ChangePause&) { return true; },
                 [](const ChangeBatch&) { return true; },
                 [](const Cancel& one) { return !one.batch.empty(); },
                 [](const Retry& one) { return !one.batch.empty(); },
                 [](const Drop& one) { return !one.batch.empty(); },
                 [](const auto&) { return false; }},
      message);
}

std::string audit_text(const Message& message) {
  FieldsText shown;
  std::visit([&](const auto& one) { fields(shown, one); }, message);
  return std::string(kind_name(message)) + shown.text;
}

std::string outcome_word(const Message& answer) {
  const auto* backup = std::get_if<BackupAnswer>(&answer);
  const bool goes_on = backup != nullptr && !backup->done;
  return goes_on || std::holds_alternative<DrainAnswer>(answer) ? "begun" : "done";
}

std::string outcome_text(const Message& answer) {
  FieldsText shown;
  const auto show = [&](const auto& one) { fields(shown, one); };
  std::visit(
      Overloaded{[&](const Cancelled& one) { show(one); }, [&](const Retried& one) { show(one); },
                 [&](const Dropped& one) { show(one); },
                 [&](const PauseChanged& one) { show(one); },
                 [&](const BackupAnswer& one) { show(one); }, [](const auto&) {}},
      answer);
  return shown.text.empty() ? "" : shown.text.substr(1);
}

}  // namespace millrace::broker
