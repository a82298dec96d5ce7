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
    invalid,    // `bytes` bytes are the longest start of a character that cannot go on (one U+FFFD)
    incomplete  // the text ends inside a character that could still be completed
  };
  Kind kind = Kind::character;
  char32_t code_point = 0;
  std::size_t bytes = 0;
};
Utf8Step utf8_step(std::string_view text);  // text must not be empty

bool utf8_valid(std::string_view text);
std::size_t utf8_valid_prefix(std::string_view text);  // bytes of whole, valid characters
// Bytes of the text before an incomplete last character; all of it where the end is complete or
// invalid. What lies after may become a character once more bytes arrive.
std::size_t utf8_complete_prefix(std::string_view text);
// Each damaged part becomes one U+FFFD, by Unicode's "maximal subpart" practice.
std::string utf8_replace_invalid(std::string_view text);
void utf8_append(std::string& out, char32_t code_point);  // an invalid one appends U+FFFD

}  // namespace millrace
