#pragma once
// UTF-8 as Unicode defines it: no surrogates, no overlong forms, nothing above U+10FFFF.
// Thread safety: pure functions.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace millrace {

inline constexpr char32_t replacement_character = 0xFFFD;

// One step through text that may be damaged.
struct Utf8Step {
  enum class Kind : std::uint8_t {
    character,  // `bytes` bytes are `code_point`
    invalid,    // `bytes` bytes begin a character but cannot be completed (one U+FFFD)
    incomplete  // the text ends inside a character that more bytes could complete
  };
  Kind kind = Kind::character;
  char32_t code_point = 0;
  std::size_t bytes = 0;
};
Utf8Step utf8_step(std::string_view text);  // text must not be empty

bool utf8_valid(std::string_view text);
std::size_t utf8_valid_prefix(std::string_view text);  // bytes of whole, valid characters
// The number of bytes before an incomplete last character; all bytes where the end is complete or
// invalid. The bytes after it may become a character once more bytes arrive.
std::size_t utf8_complete_prefix(std::string_view text);
// Replaces each invalid part with one U+FFFD, by Unicode's "maximal subpart" practice.
std::string utf8_replace_invalid(std::string_view text);
void utf8_append(std::string& out, char32_t code_point);  // an invalid one appends U+FFFD

}  // namespace millrace
