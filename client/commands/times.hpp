#pragma once
// Times and ages as people write and read them. Thread safety: pure functions.
#include <cstdint>
#include <optional>
#include <string>

#include "schemas/base/error.hpp"

namespace millrace::client {

// A Unix time in microseconds: "2030-01-31T22:00:00Z", or from `now_us` on "+90s", "+15m", "+12h",
// "+30d". Nothing where the text is empty. Errors: usage, naming `option`.
Result<std::optional<std::int64_t>> parse_time(const std::string& text, const char* option,
                                               std::int64_t now_us);

std::string time_text(std::int64_t unix_us);        // "2030-01-31 22:00:00 UTC"
std::string age_text(std::uint64_t seconds);        // "30 days", "90 seconds"; 0: "ever"
std::string rough_age_text(std::uint64_t seconds);  // the same, in the largest unit that fits twice
unsigned long long wide(std::uint64_t value);       // for printf

}  // namespace millrace::client
