#include "schemas/trace/settings.hpp"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <optional>

#include "schemas/base/log.hpp"
#include "schemas/base/random_id.hpp"

namespace millrace::trace {
namespace {

constexpr std::string_view traces_path = "/v1/traces";

// A value of a variable, for the log: never a header, which may hold a secret.
void warn(const char* name, const std::string& value, const char* why) {
  log_warn("an environment variable has no effect",
           {{"name", name}, {"value", value}, {"why", why}});
}

std::string_view trimmed(std::string_view text) {
  const auto first = text.find_first_not_of(" \t");
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t") - first + 1);
}

std::string decoded(std::string_view text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    unsigned char byte = 0;  // of unsigned numbers a sign is no digit
    const char* const digits = text.data() + i + 1;
    if (text[i] == '%' && i + 2 < text.size() &&
        std::from_chars(digits, digits + 2, byte, 16).ptr == digits + 2) {
      out += static_cast<char>(byte);
      i += 2;
    } else {
      out += text[i];
    }
  }
  return out;
}

// "a=1,b=2", with escapes in the values. None: the list is damaged.
std::optional<std::vector<std::pair<std::string, std::string>>> read_list(std::string_view text) {
  std::vector<std::pair<std::string, std::string>> out;
  while (!text.empty()) {
    const std::string_view one = text.substr(0, text.find(','));
    text.remove_prefix(std::min(text.size(), one.size() + 1));
    if (trimmed(one).empty()) continue;
    const auto sign = one.find('=');
    if (sign == std::string_view::npos) return {};
    std::string name(trimmed(one.substr(0, sign)));
    std::string value = decoded(trimmed(one.substr(sign + 1)));
    const bool one_line =
        (name + value).find_first_of(std::string_view("\r\n\0", 3)) == std::string::npos;
    if (name.empty() || !one_line) return {};
    out.emplace_back(std::move(name), std::move(value));
  }
  return out;
}

class Reader {
 public:
  explicit Reader(const Environment& variable) : variable_(variable) {}

  std::string text(const char* name) const { return variable_(name); }
  // The first of both that is set.
  std::string text(const char* first, const char* second) const {
    const std::string value = variable_(first);
    return value.empty() ? variable_(second) : value;
  }
  bool is_true(const char* name) const {
    const std::string value = variable_(name);
    return value == "true" || value == "TRUE" || value == "True";
  }
  void number(const char* name, std::uint64_t& to) const {
    const std::string value = variable_(name);
    if (value.empty()) return;
    constexpr std::uint64_t most = 1'000'000;
    std::uint64_t number = 0;
    const char* const end = value.data() + value.size();
    const auto read = std::from_chars(value.data(), end, number);
    if (read.ec != std::errc() || read.ptr != end || number == 0 || number > most) {
      return warn(name, value, "it is no whole number from 1 to 1000000");
    }
    to = number;
  }

 private:
  const Environment& variable_;
};

bool is_url(std::string_view text) {
  for (const std::string_view scheme : {"http://", "https://"}) {
    if (text.starts_with(scheme)) return text.size() > scheme.size() && text[scheme.size()] != '/';
  }
  return false;
}

std::string with_path(std::string url) {
  const auto path = url.find('/', url.find("//") + 2);
  if (path == std::string::npos) return url + std::string(traces_path);
  if (path + 1 == url.size()) return url.substr(0, path) + std::string(traces_path);
  return url;
}

std::string url_of_environment(const Reader& read) {
  if (read.text("OTEL_TRACES_EXPORTER") == "none") return {};
  const char* name = "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT";
  std::string url = read.text(name);
  if (url.empty()) {
    name = "OTEL_EXPORTER_OTLP_ENDPOINT";
    url = read.text(name);
    if (url.empty()) return {};
    while (url.ends_with('/')) url.pop_back();
    url += traces_path;
  }
  const std::string protocol =
      read.text("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL");
  if (protocol == "grpc") {
    warn(name, without_password(url),
         "the protocol is said to be grpc, and spans go over HTTP alone: give --traces");
    return {};
  }
  if (is_url(url)) return url;
  warn(name, without_password(url), "it is no URL with http:// or https://");
  return {};
}

Attributes resource_of(const Reader& read, const Program& program) {
  std::string service = program.name;
  std::vector<std::pair<std::string, std::string>> given;
  const char* const name = "OTEL_RESOURCE_ATTRIBUTES";
  if (auto list = read_list(read.text(name))) {
    given = *std::move(list);
  } else {
    warn(name, read.text(name), "it is no list like name=value,name=value");
  }
  Attributes out;
  for (auto& [key, value] : given) {
    if (key == "service.name") {
      service = value;
    } else {
      out.add(key, value);
    }
  }
  if (const std::string own = read.text("OTEL_SERVICE_NAME"); !own.empty()) service = own;
  out.add("service.name", service).add("service.version", program.version);
  out.add("service.instance.id", random_id());
  out.add("telemetry.sdk.name", "millrace").add("telemetry.sdk.language", "cpp");
  return out.add("telemetry.sdk.version", program.version);
}

}  // namespace

std::string environment(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? "" : value;
}

std::string without_password(const std::string& url) {
  const auto scheme = url.find("//");
  const auto host = scheme == std::string::npos ? 0 : scheme + 2;
  const auto end = std::min(url.find_first_of("/?#", host), url.size());
  const auto sign = url.substr(0, end).rfind('@');
  if (sign == std::string::npos || sign < host) return url;
  return url.substr(0, host) + url.substr(sign + 1);
}

Status check_url(const std::string& url) {
  if (url.empty() || is_url(url)) return {};
  return fail(Code::usage,
              "--traces " + without_password(url) + " is no URL with http:// or https://",
              "name a receiver of OTLP over HTTP, such as http://127.0.0.1:4318");
}

Result<Settings> read_settings(const std::string& url, const Program& program,
                               const Environment& variable) {
  const Reader read(variable);
  Settings out;
  if (!url.empty()) {
    MILLRACE_TRY(check_url(url));
    out.url = with_path(url);
  } else if (!read.is_true("OTEL_SDK_DISABLED")) {
    out.url = url_of_environment(read);
  }
  if (out.url.empty()) return out;
  if (auto list =
          read_list(read.text("OTEL_EXPORTER_OTLP_TRACES_HEADERS", "OTEL_EXPORTER_OTLP_HEADERS"))) {
    out.headers = *std::move(list);
  } else {
    warn("OTEL_EXPORTER_OTLP_HEADERS", "...", "it is no list like name=value,name=value");
  }
  out.certificate =
      read.text("OTEL_EXPORTER_OTLP_TRACES_CERTIFICATE", "OTEL_EXPORTER_OTLP_CERTIFICATE");
  read.number("OTEL_EXPORTER_OTLP_TIMEOUT", out.timeout_ms);
  read.number("OTEL_EXPORTER_OTLP_TRACES_TIMEOUT", out.timeout_ms);
  read.number("OTEL_BSP_SCHEDULE_DELAY", out.delay_ms);
  read.number("OTEL_BSP_MAX_QUEUE_SIZE", out.queue_spans);
  read.number("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", out.batch_spans);
  out.batch_spans = std::min(out.batch_spans, out.queue_spans);
  out.resource = resource_of(read, program);
  if (const std::string name = read.text("OTEL_TRACES_SAMPLER"); !name.empty()) {
    const auto sampler = Sampler::named(name, read.text("OTEL_TRACES_SAMPLER_ARG"));
    if (sampler) {
      out.sampler = *sampler;
    } else {
      log_warn("spans are sampled as without OTEL_TRACES_SAMPLER", sampler.error());
    }
  }
  return out;
}

}  // namespace millrace::trace
