#include "client/commands/times.hpp"

#include <array>
#include <charconv>
#include <ctime>
#include <utility>

#include "schemas/base/limits.hpp"

namespace millrace::client {
namespace {

constexpr std::int64_t second_us = 1'000'000;

// "+15m" as seconds.
std::optional<std::int64_t> parse_span(const std::string& text) {
  if (text.size() < 3 || text.front() != '+') {
    return std::nullopt;
  }
  std::uint64_t count = 0;
  const char* const last = text.data() + text.size() - 1;
  const auto [end, error] = std::from_chars(text.data() + 1, last, count);
  if (error != std::errc() || end != last || count > limits::keep_s) {
    return std::nullopt;
  }
  for (const auto& [unit, seconds] :
       {std::pair('s', 1u), std::pair('m', 60u), std::pair('h', 3'600u), std::pair('d', 86'400u)}) {
    if (*last == unit && count <= limits::keep_s / seconds) {
      return static_cast<std::int64_t>(count * seconds);
    }
  }
  return std::nullopt;
}

// "2030-01-31T22:00:00Z" as Unix time in seconds.
std::optional<std::int64_t> parse_date(const std::string& text) {
  std::tm utc{};
  const char* const end = ::strptime(text.c_str(), "%Y-%m-%dT%H:%M:%SZ", &utc);
  if (end == nullptr || *end != '\0') {
    return std::nullopt;
  }
  const std::tm asked = utc;
  const std::time_t seconds = ::timegm(&utc);  // a 31st of June becomes the 1st of July
  if (asked.tm_mday != utc.tm_mday || asked.tm_sec != utc.tm_sec || seconds <= 0) {
    return std::nullopt;
  }
  return seconds;
}

}  // namespace

Result<std::optional<std::int64_t>> parse_time(const std::string& text, const char* option,
                                               std::int64_t now_us) {
  if (text.empty()) {
    return std::nullopt;
  }
  if (const auto span = parse_span(text)) {
    return now_us + *span * second_us;
  }
  if (const auto date = parse_date(text)) {
    return *date * second_us;
  }
  return fail(Code::usage, std::string(option) + " " + text + " is no time",
              "give a time from now on, such as +90s, +15m, +12h or +30d, or a date such as "
              "2030-01-31T22:00:00Z");
}

std::string time_text(std::int64_t unix_us) {
  const auto seconds = static_cast<std::time_t>(unix_us / 1'000'000);
  std::tm utc{};
  std::array<char, 32> text{};
  if (gmtime_r(&seconds, &utc) == nullptr) {
    return "an unknown time";
  }
  std::strftime(text.data(), text.size(), "%Y-%m-%d %H:%M:%S UTC", &utc);
  return text.data();
}

std::string rough_age_text(std::uint64_t seconds) {
  for (const std::uint64_t unit : {86'400u, 3'600u, 60u}) {
    if (seconds >= 2 * unit) {
      return age_text((seconds + unit - 1) / unit * unit);
    }
  }
  return age_text(seconds);
}

unsigned long long wide(std::uint64_t value) {
  return value;
}

std::string age_text(std::uint64_t seconds) {
  if (seconds == 0) {
    return "ever";
  }
  for (const auto& [unit, name] : {std::pair(86'400u, "day"), std::pair(3'600u, "hour"),
                                   std::pair(60u, "minute"), std::pair(1u, "second")}) {
    if (seconds % unit == 0) {
      return std::to_string(seconds / unit) + " " + name + (seconds == unit ? "" : "s");
    }
  }
  return {};
}

}  // namespace millrace::client
