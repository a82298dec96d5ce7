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
// Returns the byte offset of each code point, and the size of the text.
std::vector<std::size_t> offsets(std::string_view s);
// Returns the number of bytes of the character that starts at `s[at]`.
std::size_t character_bytes(std::string_view s, std::size_t at);
void append_utf8(std::string& out, std::uint32_t code_point);

bool is_space(std::uint32_t code_point);  // str.isspace
// Removes the characters in `characters` (nullptr: whitespace) from the chosen ends.
std::string_view strip(std::string_view s, const std::string* characters, bool left, bool right);
// str.split without a separator; a negative limit means none.
std::vector<std::string_view> split_whitespace(std::string_view s, std::int64_t limit);

// `title` begins a word after each character without case, as Python does. `words` begins a word
// only after whitespace, hyphens and opening brackets, as Jinja does. "don't" becomes "Don'T" and
// "Don't".
enum class Case { upper, lower, title, capitalize, words };
std::string change_case(std::string_view s, Case how);
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
bool is_upper(std::string_view s);
bool is_lower(std::string_view s);

std::string repr(std::string_view s);  // quoted, as Python prints it inside a list
std::string repr(double d);            // the shortest that round-trips, in Python's format

// A JSON string literal as json.dumps writes it.
void append_json(std::string& out, std::string_view s, bool ensure_ascii);

}  // namespace millrace::chat_template::text
