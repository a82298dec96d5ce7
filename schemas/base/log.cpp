#include "schemas/base/log.hpp"

#include <spdlog/sinks/base_sink.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <array>
#include <atomic>
#include <charconv>
#include <cmath>
#include <memory>
#include <mutex>

#include "schemas/base/utf8.hpp"

namespace millrace {
namespace {

constexpr std::array level_names = {"trace", "debug", "info", "warn", "error", "off"};

struct State {
  std::mutex mutex;
  std::shared_ptr<spdlog::logger> logger;
  std::atomic<LogLevel> level{LogLevel::off};
  bool json = false;
};
State& state() {
  // Never destroyed, so that threads that end late may still log.
  static State* const s = new State;
  return *s;
}

class CallbackSink final : public spdlog::sinks::base_sink<std::mutex> {
 public:
  explicit CallbackSink(std::function<void(std::string_view)> callback)
      : callback_(std::move(callback)) {}

 protected:
  void sink_it_(const spdlog::details::log_msg& message) override {
    spdlog::memory_buf_t line;
    formatter_->format(message, line);
    callback_(std::string_view(line.data(), line.size()));
  }
  void flush_() override {}

 private:
  std::function<void(std::string_view)> callback_;
};

spdlog::level::level_enum to_spdlog(LogLevel level) {
  return static_cast<spdlog::level::level_enum>(level == LogLevel::off ? spdlog::level::off
                                                                       : static_cast<int>(level));
}

template <class T>
void append_number(std::string& out, T value) {
  std::array<char, 32> digits;
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), value).ptr;
  out.append(digits.data(), end);
}

// Writes a JSON string literal. It replaces invalid UTF-8, so that a line always parses.
void append_quoted(std::string& out, std::string_view raw) {
  out.push_back('"');
  std::string replaced;
  if (!utf8_valid(raw)) {
    replaced = utf8_replace_invalid(raw);
    raw = replaced;
  }
  for (const char c : raw) {
    const auto u = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      out.push_back('\\');
      out.push_back(c);
    } else if (c == '\n') {
      out += "\\n";
    } else if (u < 0x20 || u == 0x7F) {
      constexpr char digits[] = "0123456789abcdef";
      out += "\\u00";
      out.push_back(digits[u >> 4]);
      out.push_back(digits[u & 15]);
    } else {
      out.push_back(c);
    }
  }
  out.push_back('"');
}

bool plain(std::string_view text) {
  for (const char c : text) {
    const auto u = static_cast<unsigned char>(c);
    if (u <= 0x20 || u >= 0x7F || c == '"' || c == '=' || c == '\\') return false;
  }
  return !text.empty();
}

void append_value(std::string& out, const LogField::Value& value, bool json) {
  std::visit(
      [&](auto v) {
        using T = decltype(v);
        if constexpr (std::is_same_v<T, std::string_view>) {
          if (!json && plain(v)) {
            out += v;
          } else {
            append_quoted(out, v);
          }
        } else if constexpr (std::is_same_v<T, bool>) {
          out += v ? "true" : "false";
        } else if constexpr (std::is_same_v<T, double>) {
          if (json && !std::isfinite(v)) {
            out += "null";
          } else {
            append_number(out, v);
          }
        } else {
          append_number(out, v);
        }
      },
      value);
}

std::string payload(std::string_view message, std::span<const LogField> fields, bool json) {
  std::string out;
  if (json) {
    out += "\"message\":";
    append_quoted(out, message);
  } else {
    out += message;
  }
  for (const LogField& field : fields) {
    out += json ? "," : " ";
    if (json) {
      append_quoted(out, field.key);
      out.push_back(':');
    } else {
      out += field.key;
      out.push_back('=');
    }
    append_value(out, field.value, json);
  }
  return out;
}

void log_with_error(LogLevel level, std::string_view message, const Error& error) {
  const std::string_view code = code_name(error.code);
  if (error.hint.empty()) {
    log(level, message, {{"code", code}, {"error", error.message}});
  } else {
    log(level, message, {{"code", code}, {"error", error.message}, {"hint", error.hint}});
  }
}

}  // namespace

void set_up_logging(const LogOptions& options) {
  std::shared_ptr<spdlog::sinks::sink> sink;
  if (options.sink) {
    sink = std::make_shared<CallbackSink>(options.sink);
  } else {
    sink = std::make_shared<spdlog::sinks::stderr_sink_mt>();
  }
  auto logger = std::make_shared<spdlog::logger>("millrace", std::move(sink));
  logger->set_level(to_spdlog(options.level));
  logger->flush_on(spdlog::level::trace);
  logger->set_pattern(options.json ? R"({"time":"%Y-%m-%dT%H:%M:%S.%eZ","level":"%l",%v})"
                                   : "%Y-%m-%dT%H:%M:%S.%eZ %-7l %v",
                      spdlog::pattern_time_type::utc);
  State& s = state();
  const std::lock_guard lock(s.mutex);
  s.logger = std::move(logger);
  s.json = options.json;
  s.level = options.level;
}

Result<LogLevel> log_level_from_name(std::string_view name) {
  for (std::size_t i = 0; i < level_names.size(); ++i) {
    if (name == level_names[i]) return static_cast<LogLevel>(i);
  }
  if (name == "warning") return LogLevel::warn;
  return fail(Code::usage, "unknown log level '" + std::string(name) + "'",
              "use trace, debug, info, warn, error or off");
}

bool log_enabled(LogLevel level) {
  return level != LogLevel::off && level >= state().level.load(std::memory_order_relaxed);
}

void log(LogLevel level, std::string_view message, std::span<const LogField> fields) {
  if (!log_enabled(level)) return;
  State& s = state();
  std::shared_ptr<spdlog::logger> logger;
  bool json = false;
  {
    const std::lock_guard lock(s.mutex);
    logger = s.logger;
    json = s.json;
  }
  logger->log(to_spdlog(level), "{}", payload(message, fields, json));
}

void log_audit(std::string_view what) {
  State& s = state();
  std::shared_ptr<spdlog::logger> logger;
  {
    const std::lock_guard lock(s.mutex);
    logger = s.logger;
  }
  if (s.level == LogLevel::off || !logger) return;
  const LogField field{"what", what};
  const std::string line = payload("audit", std::span(&field, 1), s.json);
  // Past the logger's own level.
  for (const auto& sink : logger->sinks()) {
    sink->log({logger->name(), spdlog::level::info, line});
    sink->flush();
  }
}

void log_error(std::string_view message, const Error& error) {
  log_with_error(LogLevel::error, message, error);
}
void log_warn(std::string_view message, const Error& error) {
  log_with_error(LogLevel::warn, message, error);
}

}  // namespace millrace
