#pragma once
// The logger, the only global of the product. It writes nothing until set_up_logging is called, so
// that a library stays silent inside a program that does not want its log. Lines go to standard
// error.
//
//   log_info("engine joined", {{"engine", name}, {"leases", 12}});
//   text:  2026-01-02T03:04:05.678Z info    engine joined engine=gpu-1 leases=12
//   json:  {"time":"...","level":"info","message":"engine joined","engine":"gpu-1","leases":12}
//
// A message is constant text; varying values go into fields. Thread safety: any thread.
#include <concepts>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "schemas/base/error.hpp"

namespace millrace {

enum class LogLevel : std::uint8_t { trace, debug, info, warn, error, off };

struct LogOptions {
  LogLevel level = LogLevel::info;
  bool json = false;  // one JSON object a line
  // Gets whole lines, newline included, in place of standard error; calls never overlap.
  std::function<void(std::string_view line)> sink{};
};

// May be called again to change the options.
void set_up_logging(const LogOptions& options);
// "trace", "debug", "info", "warn", "error", "off". Errors: usage.
Result<LogLevel> log_level_from_name(std::string_view name);

struct LogField {
  using Value = std::variant<std::string_view, std::int64_t, std::uint64_t, double, bool>;
  std::string_view key;
  Value value;

  LogField(std::string_view k, std::string_view v) : key(k), value(v) {}
  LogField(std::string_view k, const char* v) : key(k), value(std::string_view(v)) {}
  LogField(std::string_view k, const std::string& v) : key(k), value(std::string_view(v)) {}
  LogField(std::string_view k, bool v) : key(k), value(v) {}
  template <std::floating_point T>
  LogField(std::string_view k, T v) : key(k), value(static_cast<double>(v)) {}
  template <std::integral T>
  LogField(std::string_view k, T v) : key(k) {
    if constexpr (std::signed_integral<T>) {
      value = static_cast<std::int64_t>(v);
    } else {
      value = static_cast<std::uint64_t>(v);
    }
  }
};
using LogFields = std::initializer_list<LogField>;

// A visitor of a table of fields, for example of EngineFacts: it collects the fields that a log
// line can hold. The visited value must outlive the list.
class LogFieldList {
 public:
  void field(std::string_view name, const auto& value, const auto&...) {
    if constexpr (requires { LogField(name, value); }) list_.emplace_back(name, value);
  }
  LogFieldList& add(LogField field) {
    list_.push_back(field);
    return *this;
  }
  std::span<const LogField> list() const { return list_; }

 private:
  std::vector<LogField> list_;
};

bool log_enabled(LogLevel level);
void log(LogLevel level, std::string_view message, std::span<const LogField> fields);
inline void log(LogLevel level, std::string_view message, LogFields fields = {}) {
  log(level, message, std::span(fields.begin(), fields.size()));
}

inline void log_debug(std::string_view message, LogFields fields = {}) {
  log(LogLevel::debug, message, fields);
}
inline void log_info(std::string_view message, LogFields fields = {}) {
  log(LogLevel::info, message, fields);
}
inline void log_warn(std::string_view message, LogFields fields = {}) {
  log(LogLevel::warn, message, fields);
}
inline void log_error(std::string_view message, LogFields fields = {}) {
  log(LogLevel::error, message, fields);
}
// A line of the level `info` that is written at every level but `off`.
void log_audit(std::string_view what);
// An error value as fields `code`, `error` and, where there is one, `hint`.
void log_error(std::string_view message, const Error& error);
void log_warn(std::string_view message, const Error& error);

}  // namespace millrace
