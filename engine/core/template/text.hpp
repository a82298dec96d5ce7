#pragma once
// Python's view of text, over UTF-8: code points, whitespace, case, repr. Input is valid UTF-8
// (checked where a job or a model file enters). Case is mapped one character to one by utf8proc. A
// letter that Python maps to several becomes the one that Unicode has (the German sharp s becomes
// its capital, U+1E9E) or stays itself, and a sigma at the end of a word is like any other.
// Thread safety: pure functions.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace millrace::chat_template::text {

std::size_t length(std::string_view s);  // code points
// Byte offset of each code point, and the end.
std::vector<std::size_t> offsets(std::string_view s);
// Bytes of the character that starts at `s[at]`.
std::size_t character_bytes(std::string_view s, std::size_t at);
void append_utf8(std::string& out, std::uint32_t code_point);

bool is_space(std::uint32_t code_point);  // str.isspace
// Without the characters of `characters` (nullptr: whitespace) at either end.
std::string_view strip(std::string_view s, const std::string* characters, bool left, bool right);
std::vector<std::string_view> split_whitespace(std::string_view s, std::int64_t limit);

// `title` begins a word after each character without case, as Python does. `words` begins one after
// blanks, dashes and opening brackets only, as Jinja does. "don't" becomes "Don'T" and "Don't".
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
  bool first_ = true;  // no character has come
  bool word_ = false;  // the last character belongs to a word
};
bool is_upper(std::string_view s);
bool is_lower(std::string_view s);

std::string repr(std::string_view s);  // 'quoted', as Python prints it inside a list
std::string repr(double d);            // shortest that round-trips, in Python's format

// A JSON string literal as json.dumps writes it.
void append_json(std::string& out, std::string_view s, bool ensure_ascii);

}  // namespace millrace::chat_template::text
