#pragma once
// Letters as dots, for plots. Thread safety: pure functions.
#include <cstdint>

namespace millrace::client {

inline constexpr std::uint32_t letter_columns = 5, letter_rows = 8;  // without space between

// Whether a printable ASCII letter has a dot there; others are drawn as '?'.
bool letter_dot(char letter, std::uint32_t column, std::uint32_t row);

}  // namespace millrace::client
