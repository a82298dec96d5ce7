#pragma once
// Where spans go, and which: from the option --traces and from the environment variables that
// OpenTelemetry defines for its exporters. A variable that is empty counts as absent; one that
// cannot be used is logged and has no effect. Thread safety: pure functions.
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "schemas/base/error.hpp"
#include "schemas/trace/sampler.hpp"
#include "schemas/trace/span.hpp"

namespace millrace::trace {

struct Settings {
  std::string url;  // to post to; empty: no spans are made
  std::vector<std::pair<std::string, std::string>> headers{};
  std::string certificate{};          // file of the authorities to trust; empty: the system's
  std::uint64_t timeout_ms = 10'000;  // of one post
  std::uint64_t delay_ms = 5'000;     // a span waits no longer for others to go with
  std::uint64_t queue_spans = 8'192;  // that wait; more are dropped
  std::uint64_t batch_spans = 512;    // in one post
  Attributes resource{};              // which program it is
  Sampler sampler{};
};

struct Program {
  std::string name, version;
};

// The value of an environment variable; empty where there is none.
using Environment = std::function<std::string(const char* name)>;
std::string environment(const char* name);

// A URL as the log may show it.
std::string without_password(const std::string& url);

// Checks what --traces names. Errors: usage (it is neither empty nor a URL with http:// or
// https://).
Status check_url(const std::string& url);

// `url` is that of --traces, or empty. A URL without a path gets /v1/traces. Errors: those of
// check_url.
Result<Settings> read_settings(const std::string& url, const Program& program,
                               const Environment& variable = environment);

}  // namespace millrace::trace
