#include "schemas/base/utf8.hpp"

namespace millrace {
namespace {

struct Lead {
  std::size_t bytes;                     // of the whole character, 0: not a lead byte
  unsigned char second_min, second_max;  // narrower for E0, ED, F0 and F4
};

Lead lead(unsigned char b) {
  if (b < 0x80) return {1, 0, 0};
  if (b < 0xC2) return {0, 0, 0};
  if (b < 0xE0) return {2, 0x80, 0xBF};
  if (b == 0xE0) return {3, 0xA0, 0xBF};
  if (b == 0xED) return {3, 0x80, 0x9F};
  if (b < 0xF0) return {3, 0x80, 0xBF};
  if (b == 0xF0) return {4, 0x90, 0xBF};
  if (b < 0xF4) return {4, 0x80, 0xBF};
  if (b == 0xF4) return {4, 0x80, 0x8F};
  return {0, 0, 0};
}

}  // namespace

Utf8Step utf8_step(std::string_view text) {
  using enum Utf8Step::Kind;
  const auto first = static_cast<unsigned char>(text[0]);
  const Lead l = lead(first);
  if (l.bytes == 1) return {character, first, 1};
  if (l.bytes == 0) return {invalid, replacement_character, 1};
  char32_t point = first & (0xFFu >> (l.bytes + 1));
  for (std::size_t i = 1; i < l.bytes; ++i) {
    if (i == text.size()) return {incomplete, replacement_character, i};
    const auto b = static_cast<unsigned char>(text[i]);
    const unsigned char low = i == 1 ? l.second_min : 0x80, high = i == 1 ? l.second_max : 0xBF;
    if (b < low || b > high) return {invalid, replacement_character, i};
    point = (point << 6) | (b & 0x3Fu);
  }
  return {character, point, l.bytes};
}

std::size_t utf8_valid_prefix(std::string_view text) {
  std::size_t at = 0;
  while (at < text.size()) {
    if (static_cast<unsigned char>(text[at]) < 0x80) {
      ++at;
      continue;
    }
    const Utf8Step step = utf8_step(text.substr(at));
    if (step.kind != Utf8Step::Kind::character) break;
    at += step.bytes;
  }
  return at;
}

bool utf8_valid(std::string_view text) {
  return utf8_valid_prefix(text) == text.size();
}

std::size_t utf8_complete_prefix(std::string_view text) {
  // Only the last three bytes can belong to an incomplete character.
  const std::size_t begin = text.size() < 3 ? 0 : text.size() - 3;
  for (std::size_t at = begin; at < text.size(); ++at) {
    const Utf8Step step = utf8_step(text.substr(at));
    if (step.kind == Utf8Step::Kind::incomplete) return at;
  }
  return text.size();
}

std::string utf8_replace_invalid(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    const std::size_t good = utf8_valid_prefix(text);
    out += text.substr(0, good);
    text.remove_prefix(good);
    if (text.empty()) break;
    out += "\xEF\xBF\xBD";
    text.remove_prefix(utf8_step(text).bytes);
  }
  return out;
}

void utf8_append(std::string& out, char32_t point) {
  if (point > 0x10FFFF || (point >= 0xD800 && point <= 0xDFFF)) point = replacement_character;
  const auto put = [&](char32_t byte) { out.push_back(static_cast<char>(byte)); };
  if (point < 0x80) {
    put(point);
  } else if (point < 0x800) {
    put(0xC0 | (point >> 6));
    put(0x80 | (point & 0x3F));
  } else if (point < 0x10000) {
    put(0xE0 | (point >> 12));
    put(0x80 | ((point >> 6) & 0x3F));
    put(0x80 | (point & 0x3F));
  } else {
    put(0xF0 | (point >> 18));
    put(0x80 | ((point >> 12) & 0x3F));
    put(0x80 | ((point >> 6) & 0x3F));
    put(0x80 | (point & 0x3F));
  }
}

}  // namespace millrace
