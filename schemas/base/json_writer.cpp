#include "schemas/base/json_writer.hpp"

#include <array>
#include <charconv>
#include <cmath>

#include "schemas/base/utf8.hpp"

namespace millrace {
namespace {

template <class Number>
void append_number(std::string& out, Number number) {
  std::array<char, 40> digits;
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), number);
  out.append(digits.data(), end.ptr);
}

// Characters that JSON allows unescaped, but that common readers of lines take for a line's end.
struct LineEnd {
  std::string_view bytes, escape;
};
constexpr LineEnd line_ends[] = {
    {"\xc2\x85", "\\u0085"}, {"\xe2\x80\xa8", "\\u2028"}, {"\xe2\x80\xa9", "\\u2029"}};

const LineEnd* line_end_at(std::string_view rest) {
  for (const LineEnd& end : line_ends) {
    if (rest.starts_with(end.bytes)) {
      return &end;
    }
  }
  return nullptr;
}

void append_quoted(std::string& out, std::string_view text) {
  constexpr std::string_view hex = "0123456789abcdef";
  out += '"';
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    const auto byte = static_cast<unsigned char>(c);
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
      default:
        if (byte < 0x20 || byte == 0x7f) {
          out += "\\u00";
          out += hex[byte >> 4];
          out += hex[byte & 15];
        } else if (const LineEnd* end = byte < 0xc2 ? nullptr : line_end_at(text.substr(i))) {
          out += end->escape;
          i += end->bytes.size() - 1;
        } else {
          out += c;
        }
    }
  }
  out += '"';
}

}  // namespace

void JsonWriter::separate() {
  if (need_comma_) {
    out_ += ',';
  }
  need_comma_ = true;
}

JsonWriter& JsonWriter::open(char bracket) {
  separate();
  out_ += bracket;
  need_comma_ = false;
  return *this;
}

JsonWriter& JsonWriter::close(char bracket) {
  out_ += bracket;
  need_comma_ = true;
  return *this;
}

JsonWriter& JsonWriter::key(std::string_view name) {
  separate();
  append_quoted(out_, name);
  out_ += ':';
  need_comma_ = false;
  return *this;
}

JsonWriter& JsonWriter::value(std::string_view text) {
  separate();
  if (utf8_valid(text)) {
    append_quoted(out_, text);
  } else {
    append_quoted(out_, utf8_replace_invalid(text));
  }
  return *this;
}

JsonWriter& JsonWriter::value(std::uint64_t number) {
  separate();
  append_number(out_, number);
  return *this;
}

JsonWriter& JsonWriter::value(std::int64_t number) {
  separate();
  append_number(out_, number);
  return *this;
}

JsonWriter& JsonWriter::value(double number) {
  if (!std::isfinite(number)) {
    return null();
  }
  separate();
  append_number(out_, number);
  return *this;
}

JsonWriter& JsonWriter::value(float number) {
  if (!std::isfinite(number)) {
    return null();
  }
  separate();
  append_number(out_, number);
  return *this;
}

JsonWriter& JsonWriter::value(bool truth) {
  separate();
  out_ += truth ? "true" : "false";
  return *this;
}

JsonWriter& JsonWriter::null() {
  separate();
  out_ += "null";
  return *this;
}

JsonWriter& JsonWriter::raw(std::string_view json) {
  separate();
  out_ += json;
  return *this;
}

}  // namespace millrace
