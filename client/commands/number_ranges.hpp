#pragma once
// Writes the numbers of lines for people. Thread safety: a pure function.
#include <cstdint>
#include <string>
#include <vector>

namespace millrace::client {

// "1 to 3, 7": the numbers in their order. After twenty ranges the text tells only the last number.
std::string number_ranges(std::vector<std::uint64_t> numbers);

}  // namespace millrace::client
