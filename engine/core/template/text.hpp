#pragma once
// Text operations as in Python, on UTF-8: code points, whitespace, case, repr. Input must be valid
// UTF-8; the engine checks jobs and model files for that. utf8proc maps the case of one character
// to one character. A letter that Python maps to several becomes the one that Unicode has (the
// German sharp s becomes its capital, U+1E9E) or stays itself. A sigma at the end of a word is no
// exception.
// Thread safety: pure functions.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace millrace::chat_template::text {

std::size_t length(std::string_view s);  // code points
// Returns the place that lies `count` characters after the place `at`, or the end of the text.
std::size_t forward(std::string_view s, std::size_t at, std::size_t count);
// Returns the place of the character before the place `at`, which is not 0.
std::size_t backward(std::string_view s, std::size_t at);
// Returns the largest prefix of at most `bytes` bytes that consists of whole characters.
std::string_view whole_prefix(std::string_view s, std::size_t bytes);
// Returns the number of bytes of the character that starts at `s[at]`.
std::size_t character_bytes(std::string_view s, std::size_t at);
void append_utf8(std::string& out, std::uint32_t code_point);

bool is_space(std::uint32_t code_point);  // str.isspace
// Removes the characters in `characters` (nullptr: whitespace) from the chosen ends.
std::string_view strip(std::string_view s, const std::string* characters, bool left, bool right);
// Returns the size of the word at the near end of a text: the characters before the first
// whitespace, or with `from_right` those after the last.
std::size_t word_bytes(std::string_view s, bool from_right);

// `title` begins a word after each character without case, as Python does. `words` begins a word
// only after whitespace, hyphens and opening brackets, as Jinja does. "don't" becomes "Don'T" and
// "Don't".
enum class Case { upper, lower, title, capitalize, words };
// Changes the case of a text that comes in pieces. Each piece consists of whole characters.
class CaseMap {
 public:
  explicit CaseMap(Case how) : how_(how) {}
  std::string next(std::string_view piece);

 private:
  std::uint32_t map(std::uint32_t code_point) const;
  Case how_;
  bool first_ = true;  // no character has come yet
  bool word_ = false;  // the last character belongs to a word
};
// str.isupper and its kin.
bool is_upper(std::string_view s);
bool is_lower(std::string_view s);
bool is_digits(std::string_view s);
bool is_blank(std::string_view s);
bool is_letters(std::string_view s);
bool is_letters_or_numbers(std::string_view s);

// Python's repr of a text: the quote that it chooses, and what it writes between two of them.
char repr_quote(std::string_view s);
void append_repr(std::string& out, std::string_view s, char quote);
std::string repr(double d);  // the shortest that round-trips, in Python's format

// What json.dumps writes between the quotes of a text.
void append_json(std::string& out, std::string_view s, bool ensure_ascii);

}  // namespace millrace::chat_template::text
