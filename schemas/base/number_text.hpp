#pragma once
// Numbers as messages show them. Thread safety: pure functions.
#include <cstdint>
#include <string>
#include <string_view>

namespace millrace {

std::string number_text(float value);  // the shortest exact text: "0.1", "-2", "1e30"
std::string number_text(double value);
// "900 bytes", "1 GiB", "1536 MiB", "11.4 GiB": exact, or with an error of at most a hundredth
std::string size_text(std::uint64_t bytes);
std::string times_text(std::uint64_t count);  // "once", "3 times"
// "1 job", "3 jobs": the noun's plural has an s.
std::string count_text(std::uint64_t count, std::string_view noun);

}  // namespace millrace
