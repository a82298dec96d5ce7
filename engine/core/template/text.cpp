#include "engine/core/template/text.hpp"

#include <utf8proc.h>

#include <array>
#include <charconv>
#include <cmath>
#include <cstdio>

namespace millrace::chat_template::text {
namespace {

struct Character {
  std::uint32_t code_point;
  std::size_t bytes;
};

Character decode(std::string_view s, std::size_t at) {
  const auto byte = [&](std::size_t i) -> std::uint32_t {
    return at + i < s.size() ? static_cast<unsigned char>(s[at + i]) & 0x3Fu : 0u;
  };
  const auto first = static_cast<unsigned char>(s[at]);
  if (first < 0x80) return {first, 1};
  if (first < 0xE0) return {(first & 0x1Fu) << 6 | byte(1), 2};
  if (first < 0xF0) return {(first & 0x0Fu) << 12 | byte(1) << 6 | byte(2), 3};
  return {(first & 0x07u) << 18 | byte(1) << 12 | byte(2) << 6 | byte(3), 4};
}

bool is_continuation(char c) {
  return (static_cast<unsigned char>(c) & 0xC0u) == 0x80u;
}

std::uint32_t upper(std::uint32_t c) {
  return static_cast<std::uint32_t>(utf8proc_toupper(static_cast<utf8proc_int32_t>(c)));
}
std::uint32_t lower(std::uint32_t c) {
  return static_cast<std::uint32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(c)));
}
std::uint32_t title(std::uint32_t c) {
  return static_cast<std::uint32_t>(utf8proc_totitle(static_cast<utf8proc_int32_t>(c)));
}

// The characters after which Jinja's filter `title` begins a word.
bool separates_words(std::uint32_t c) {
  return is_space(c) || (c < 0x80 && std::string_view("-({[<").contains(static_cast<char>(c)));
}

bool is_printable(std::uint32_t c) {
  if (c < 0x80) return c >= 0x20 && c != 0x7F;
  switch (utf8proc_category(static_cast<utf8proc_int32_t>(c))) {
    case UTF8PROC_CATEGORY_CN:
    case UTF8PROC_CATEGORY_CC:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_CS:
    case UTF8PROC_CATEGORY_CO:
    case UTF8PROC_CATEGORY_ZS:
    case UTF8PROC_CATEGORY_ZL:
    case UTF8PROC_CATEGORY_ZP:
      return false;
    default:
      return true;
  }
}

void append_hex(std::string& out, const char* prefix, std::uint32_t value, int digits) {
  std::array<char, 16> buffer{};
  const int n = std::snprintf(buffer.data(), buffer.size(), "%s%0*x", prefix, digits, value);
  out.append(buffer.data(), static_cast<std::size_t>(n));
}

bool all_cased(std::string_view s, std::uint32_t (*other)(std::uint32_t),
               std::uint32_t (*same)(std::uint32_t)) {
  bool any = false;
  for (std::size_t i = 0; i < s.size();) {
    const auto [c, bytes] = decode(s, i);
    if (same(c) != c) return false;
    any = any || other(c) != c;
    i += bytes;
  }
  return any;
}

}  // namespace

std::size_t length(std::string_view s) {
  std::size_t n = 0;
  for (const char c : s) n += is_continuation(c) ? 0 : 1;
  return n;
}

std::size_t forward(std::string_view s, std::size_t at, std::size_t count) {
  for (; count > 0 && at < s.size(); --count) at += character_bytes(s, at);
  return at;
}

std::size_t backward(std::string_view s, std::size_t at) {
  do --at;
  while (at > 0 && is_continuation(s[at]));
  return at;
}

std::string_view whole_prefix(std::string_view s, std::size_t bytes) {
  if (s.size() <= bytes) return s;
  while (bytes > 0 && is_continuation(s[bytes])) --bytes;
  return s.substr(0, bytes);
}

std::size_t character_bytes(std::string_view s, std::size_t at) {
  return std::min(decode(s, at).bytes, s.size() - at);
}

void append_utf8(std::string& out, std::uint32_t c) {
  const auto put = [&](std::uint32_t byte) { out += static_cast<char>(byte); };
  if (c < 0x80) {
    put(c);
  } else if (c < 0x800) {
    put(0xC0 | c >> 6), put(0x80 | (c & 0x3F));
  } else if (c < 0x10000) {
    put(0xE0 | c >> 12), put(0x80 | (c >> 6 & 0x3F)), put(0x80 | (c & 0x3F));
  } else {
    put(0xF0 | c >> 18), put(0x80 | (c >> 12 & 0x3F)), put(0x80 | (c >> 6 & 0x3F));
    put(0x80 | (c & 0x3F));
  }
}

bool is_space(std::uint32_t c) {
  return (c >= 0x09 && c <= 0x0D) || (c >= 0x1C && c <= 0x20) || c == 0x85 || c == 0xA0 ||
         c == 0x1680 || (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F ||
         c == 0x205F || c == 0x3000;
}

namespace {

// A set of characters that is looked up in constant time.
class CharacterSet {
 public:
  explicit CharacterSet(std::string_view characters) {
    for (std::size_t i = 0; i < characters.size();) {
      const auto [c, bytes] = decode(characters, i);
      if (c >= held_.size()) held_.resize(c + 1);
      held_[c] = true;
      i += bytes;
    }
  }
  bool holds(std::uint32_t c) const { return c < held_.size() && held_[c]; }

 private:
  std::vector<bool> held_;
};

std::string_view strip_if(std::string_view s, const auto& drop, bool left, bool right) {
  while (left && !s.empty() && drop(decode(s, 0).code_point))
    s.remove_prefix(character_bytes(s, 0));
  while (right && !s.empty()) {
    const std::size_t last = backward(s, s.size());
    if (!drop(decode(s, last).code_point)) break;
    s.remove_suffix(s.size() - last);
  }
  return s;
}

}  // namespace

std::string_view strip(std::string_view s, const std::string* characters, bool left, bool right) {
  if (characters == nullptr) return strip_if(s, is_space, left, right);
  const CharacterSet set(*characters);
  return strip_if(
      s, [&](std::uint32_t c) { return set.holds(c); }, left, right);
}

std::size_t word_bytes(std::string_view s, bool from_right) {
  std::size_t at = from_right ? s.size() : 0;
  if (from_right) {
    while (at > 0 && !is_space(decode(s, backward(s, at)).code_point)) at = backward(s, at);
    return s.size() - at;
  }
  while (at < s.size() && !is_space(decode(s, at).code_point)) at += character_bytes(s, at);
  return at;
}

std::uint32_t CaseMap::map(std::uint32_t c) const {
  switch (how_) {
    case Case::upper:
      return upper(c);
    case Case::lower:
      return lower(c);
    case Case::title:
      return word_ ? lower(c) : title(c);
    case Case::capitalize:
      return first_ ? title(c) : lower(c);
    case Case::words:
      return word_ ? lower(c) : upper(c);
  }
  return c;
}

std::string CaseMap::next(std::string_view piece) {
  std::string out;
  out.reserve(piece.size());
  for (std::size_t i = 0; i < piece.size();) {
    const auto [c, bytes] = decode(piece, i);
    append_utf8(out, map(c));
    first_ = false;
    word_ = how_ == Case::words ? !separates_words(c) : upper(c) != c || lower(c) != c;
    i += bytes;
  }
  return out;
}

bool is_upper(std::string_view s) {
  return all_cased(s, lower, upper);
}

bool is_lower(std::string_view s) {
  return all_cased(s, upper, lower);
}

namespace {

bool all_of(std::string_view s, const auto& holds) {
  for (std::size_t i = 0; i < s.size();) {
    const auto [c, bytes] = decode(s, i);
    if (!holds(c)) return false;
    i += bytes;
  }
  return !s.empty();
}

bool is_letter(std::uint32_t c) {
  const auto category = utf8proc_category(static_cast<utf8proc_int32_t>(c));
  return category >= UTF8PROC_CATEGORY_LU && category <= UTF8PROC_CATEGORY_LO;
}
bool is_number(std::uint32_t c) {
  const auto category = utf8proc_category(static_cast<utf8proc_int32_t>(c));
  return category >= UTF8PROC_CATEGORY_ND && category <= UTF8PROC_CATEGORY_NO;
}

}  // namespace

bool is_digits(std::string_view s) {
  return all_of(s, [](std::uint32_t c) { return c >= '0' && c <= '9'; });
}
bool is_blank(std::string_view s) {
  return all_of(s, is_space);
}
bool is_letters(std::string_view s) {
  return all_of(s, is_letter);
}
bool is_letters_or_numbers(std::string_view s) {
  return all_of(s, [](std::uint32_t c) { return is_letter(c) || is_number(c); });
}

char repr_quote(std::string_view s) {
  const bool double_ones = s.find('\'') != s.npos && s.find('"') == s.npos;
  return double_ones ? '"' : '\'';
}

void append_repr(std::string& out, std::string_view s, char quote) {
  for (std::size_t i = 0; i < s.size();) {
    const auto [c, bytes] = decode(s, i);
    if (c == static_cast<unsigned char>(quote) || c == '\\') {
      out += '\\';
      out += static_cast<char>(c);
    } else if (c == '\n') {
      out += "\\n";
    } else if (c == '\r') {
      out += "\\r";
    } else if (c == '\t') {
      out += "\\t";
    } else if (is_printable(c)) {
      out += s.substr(i, bytes);
    } else if (c < 0x100) {
      append_hex(out, "\\x", c, 2);
    } else if (c < 0x10000) {
      append_hex(out, "\\u", c, 4);
    } else {
      append_hex(out, "\\U", c, 8);
    }
    i += bytes;
  }
}

std::string repr(double d) {
  if (std::isnan(d)) return "nan";
  if (std::isinf(d)) return d < 0 ? "-inf" : "inf";
  std::array<char, 40> buffer{};
  const auto end =
      std::to_chars(buffer.data(), buffer.data() + buffer.size(), d, std::chars_format::scientific);
  const std::string_view shortest(buffer.data(), static_cast<std::size_t>(end.ptr - buffer.data()));
  const std::size_t e = shortest.find('e');
  int exponent = 0;
  const char* digits = shortest.data() + e + (shortest[e + 1] == '+' ? 2 : 1);
  std::from_chars(digits, shortest.data() + shortest.size(), exponent);
  // Python writes the exponent form below 1e-4 and from 1e16 on, in the same form as to_chars.
  if (exponent < -4 || exponent >= 16) return std::string(shortest);
  const auto fixed =
      std::to_chars(buffer.data(), buffer.data() + buffer.size(), d, std::chars_format::fixed);
  std::string out(buffer.data(), fixed.ptr);
  if (out.find('.') == std::string::npos) out += ".0";
  return out;
}

void append_json(std::string& out, std::string_view s, bool ensure_ascii) {
  for (std::size_t i = 0; i < s.size();) {
    const auto [c, bytes] = decode(s, i);
    switch (c) {
      case '"':
        out += "\\\"";
        break;
      case '\\':
        out += "\\\\";
        break;
      case '\n':
        out += "\\n";
        break;
      case '\r':
        out += "\\r";
        break;
      case '\t':
        out += "\\t";
        break;
      case '\b':
        out += "\\b";
        break;
      case '\f':
        out += "\\f";
        break;
      default:
        if (c < 0x20 || (ensure_ascii && c > 0x7E && c < 0x10000)) {
          append_hex(out, "\\u", c, 4);
        } else if (ensure_ascii && c >= 0x10000) {
          append_hex(out, "\\u", 0xD800 + ((c - 0x10000) >> 10), 4);
          append_hex(out, "\\u", 0xDC00 + ((c - 0x10000) & 0x3FF), 4);
        } else {
          out += s.substr(i, bytes);
        }
    }
    i += bytes;
  }
}

}  // namespace millrace::chat_template::text
