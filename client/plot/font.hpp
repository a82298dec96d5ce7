#pragma once
// Letters as patterns of dots, for plots. Thread safety: pure functions.
#include <cstdint>

namespace millrace::client {

inline constexpr std::uint32_t letter_columns = 5, letter_rows = 8;  // without space between

// Tells whether a letter has a dot there. Anything but printable ASCII is drawn as '?'.
bool letter_dot(char letter, std::uint32_t column, std::uint32_t row);

}  // namespace millrace::client
