#include "engine/core/tokenizer/pre_tokenizer.hpp"

#include <utf8proc.h>

#include <array>

#include "schemas/base/utf8.hpp"

namespace millrace::engine {
namespace {

enum class Class : std::uint8_t { letter, number, space, symbol };

// Unicode's White_Space property, which \s matches in the reference expressions.
constexpr bool is_space(char32_t c) {
  return (c >= 0x09 && c <= 0x0d) || c == 0x20 || c == 0x85 || c == 0xa0 || c == 0x1680 ||
         (c >= 0x2000 && c <= 0x200a) || c == 0x2028 || c == 0x2029 || c == 0x202f || c == 0x205f ||
         c == 0x3000;
}

Class class_of(char32_t c) {
  if (is_space(c)) return Class::space;
  switch (utf8proc_category(static_cast<utf8proc_int32_t>(c))) {
    case UTF8PROC_CATEGORY_LU:
    case UTF8PROC_CATEGORY_LL:
    case UTF8PROC_CATEGORY_LT:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_LO:
      return Class::letter;
    case UTF8PROC_CATEGORY_ND:
    case UTF8PROC_CATEGORY_NL:
    case UTF8PROC_CATEGORY_NO:
      return Class::number;
    default:
      return Class::symbol;
  }
}

constexpr std::array<Class, 128> make_ascii() {
  std::array<Class, 128> classes{};
  for (std::size_t c = 0; c < classes.size(); ++c) {
    const bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
    const bool number = c >= '0' && c <= '9';
    classes[c] = letter                               ? Class::letter
                 : number                             ? Class::number
                 : is_space(static_cast<char32_t>(c)) ? Class::space
                                                      : Class::symbol;
  }
  return classes;
}

constexpr std::array<Class, 128> kAscii = make_ascii();

struct Character {
  std::size_t bytes = 0;  // 0: past the end
  char32_t code_point = 0;
  Class kind = Class::symbol;

  explicit operator bool() const { return bytes != 0; }
  bool is(Class wanted) const { return bytes != 0 && kind == wanted; }
  bool is_line_end() const { return bytes != 0 && (code_point == '\r' || code_point == '\n'); }
};

// The text to cut, with classified characters. Positions count bytes.
class Text {
 public:
  explicit Text(std::string_view text) : text_(text) {}

  std::size_t size() const { return text_.size(); }
  char byte(std::size_t at) const { return at < text_.size() ? text_[at] : '\0'; }

  Character at(std::size_t position) const {
    if (position >= text_.size()) return {};
    const auto byte = static_cast<unsigned char>(text_[position]);
    if (byte < 128) return {1, byte, kAscii[byte]};
    const auto step = utf8_step(text_.substr(position, 4));
    if (step.kind != Utf8Step::Kind::character) return {1, replacement_character, Class::symbol};
    return {step.bytes, step.code_point, class_of(step.code_point)};
  }

  // Returns the end of the run of this class that begins at `position`.
  std::size_t run(std::size_t position, Class kind) const {
    for (auto c = at(position); c.is(kind); c = at(position)) position += c.bytes;
    return position;
  }

 private:
  std::string_view text_;
};

// Returns the end of the whitespace word at `position`, as \s+(?!\S)|\s+ matches it. At the text's
// end it is the whole run; elsewhere the run without its last character, which belongs to the next
// word. A single character is a word of its own.
std::size_t space_word(const Text& text, std::size_t position) {
  std::size_t last = position, end = position;
  for (auto c = text.at(end); c.is(Class::space); c = text.at(end)) {
    last = end;
    end += c.bytes;
  }
  return end == text.size() || last == position ? end : last;
}

// Returns the size of the match of 's|'t|'re|'ve|'m|'ll|'d at `position`, or 0.
std::size_t contraction(const Text& text, std::size_t position) {
  if (text.byte(position) != '\'') return 0;
  const char a = text.byte(position + 1), b = text.byte(position + 2);
  if (a == 's' || a == 't' || a == 'm' || a == 'd') return 2;
  if ((a == 'r' && b == 'e') || (a == 'v' && b == 'e') || (a == 'l' && b == 'l')) return 3;
  return 0;
}

// The same regardless of case, by Unicode's simple case folding: U+017F folds to s.
std::size_t contraction_any_case(const Text& text, std::size_t position) {
  if (text.byte(position) != '\'') return 0;
  const auto lower = [&text](std::size_t at) {
    const char c = text.byte(at);
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  };
  const char a = lower(position + 1), b = lower(position + 2);
  if (a == 's' || a == 't' || a == 'm' || a == 'd') return 2;
  if ((a == 'r' && b == 'e') || (a == 'v' && b == 'e') || (a == 'l' && b == 'l')) return 3;
  return text.at(position + 1).code_point == 0x17f ? 3 : 0;
}

// 's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
std::size_t gpt2_word(const Text& text, std::size_t position) {
  if (const auto size = contraction(text, position)) return position + size;
  const std::size_t body = position + (text.byte(position) == ' ' ? 1 : 0);
  const auto first = text.at(body);
  if (first && first.kind != Class::space) return text.run(body, first.kind);
  return space_word(text, position);
}

// (?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,digits}| ?[^\s\p{L}\p{N}]+[\r\n]*
// |\s*[\r\n]+|\s+(?!\S)|\s+
std::size_t llama3_word(const Text& text, std::size_t position, int digits) {
  if (const auto size = contraction_any_case(text, position)) return position + size;
  const auto first = text.at(position);
  if (first.kind == Class::letter) return text.run(position, Class::letter);
  const std::size_t second = position + first.bytes;
  if (first.kind == Class::number) {
    std::size_t end = second;
    for (int i = 1; i < digits; ++i)
      if (const auto next = text.at(end); next.is(Class::number)) end += next.bytes;
    return end;
  }
  if (!first.is_line_end() && text.at(second).is(Class::letter))
    return text.run(second, Class::letter);
  const std::size_t body = first.code_point == ' ' ? second : position;
  if (text.at(body).is(Class::symbol)) {
    std::size_t end = text.run(body, Class::symbol);
    while (text.at(end).is_line_end()) ++end;
    return end;
  }
  std::size_t after_line = position;  // the position after the whitespace run's last line end
  for (std::size_t at = position;;) {
    const auto c = text.at(at);
    if (!c.is(Class::space)) break;
    at += c.bytes;
    if (c.is_line_end()) after_line = at;
  }
  return after_line != position ? after_line : space_word(text, position);
}

void split_gpt2(std::string_view text, std::vector<std::size_t>& ends) {
  const Text whole(text);
  for (std::size_t position = 0; position < text.size();)
    ends.push_back(position = gpt2_word(whole, position));
}

// Every number character is a word. The stretches between them are cut as in gpt-2, each as a text
// of its own, so whitespace before a number is at its stretch's end.
void split_smollm(std::string_view text, std::vector<std::size_t>& ends) {
  const Text whole(text);
  for (std::size_t begin = 0; begin < text.size();) {
    std::size_t end = begin;
    auto c = whole.at(end);
    for (; c && c.kind != Class::number; c = whole.at(end)) end += c.bytes;
    const Text stretch(text.substr(0, end));
    for (std::size_t position = begin; position < end;)
      ends.push_back(position = gpt2_word(stretch, position));
    begin = end + c.bytes;
    if (c) ends.push_back(begin);
  }
}

template <int digits>
void split_llama3(std::string_view text, std::vector<std::size_t>& ends) {
  const Text whole(text);
  for (std::size_t position = 0; position < text.size();)
    ends.push_back(position = llama3_word(whole, position, digits));
}

constexpr PreTokenizer kPreTokenizers[] = {
    {"gpt-2", split_gpt2, false, false},
    {"smollm", split_smollm, false, false},
    {"llama-bpe", split_llama3<3>, true, true},
    {"qwen2", split_llama3<1>, false, false},
};

}  // namespace

const PreTokenizer* find_pre_tokenizer(std::string_view name) {
  for (const auto& entry : kPreTokenizers)
    if (entry.name == name) return &entry;
  return nullptr;
}

std::string supported_pre_tokenizers() {
  std::string names;
  for (const auto& entry : kPreTokenizers) {
    if (!names.empty()) names += ", ";
    names += entry.name;
  }
  return names;
}

}  // namespace millrace::engine
