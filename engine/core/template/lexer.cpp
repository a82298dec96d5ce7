#include "engine/core/template/lexer.hpp"

#include <array>
#include <cstddef>
#include <optional>
#include <utility>

#include "engine/core/template/text.hpp"

namespace millrace::chat_template {

Error error_at(Code code, Position at, std::string_view what, std::string hint) {
  std::string message = "the chat template, line " + std::to_string(at.line) + ", column " +
                        std::to_string(at.column) + ": ";
  message += what;
  return Error{code, std::move(message), std::move(hint)};
}

Error unsupported_at(Position at, std::string_view what) {
  return error_at(Code::template_unsupported, at, std::string(what) + " is not supported",
                  "send the prompt as text or tokens, or use a model file whose template stays "
                  "within the subset in engine/core/template/README.md");
}

namespace {

constexpr std::string_view damaged_hint =
    "send the prompt as text or tokens, because the model file's tokenizer.chat_template is "
    "damaged";

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}
bool is_name_start(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

// Turns all line ends into \n and drops a final one.
std::string normalized(std::string_view source) {
  std::string out;
  out.reserve(source.size());
  for (std::size_t i = 0; i < source.size(); ++i) {
    if (source[i] == '\r') {
      out += '\n';
      if (i + 1 < source.size() && source[i + 1] == '\n') ++i;
    } else {
      out += source[i];
    }
  }
  if (!out.empty() && out.back() == '\n') out.pop_back();
  return out;
}

class Lexer {
 public:
  explicit Lexer(std::string source) : source_(std::move(source)) {}

  Result<std::vector<Token>> run() {
    while (at_ < source_.size()) MILLRACE_TRY(next_part());
    add(TokenType::end, {});
    return std::move(tokens_);
  }

 private:
  enum class Tag { none, variable, block, comment };

  std::unexpected<Error> wrong(std::string_view what) const {
    return fail(error_at(Code::template_error, position_, what, std::string(damaged_hint)));
  }

  std::string_view rest() const { return std::string_view(source_).substr(at_); }
  char peek(std::size_t ahead = 0) const {
    return at_ + ahead < source_.size() ? source_[at_ + ahead] : '\0';
  }
  void advance(std::size_t bytes) {
    for (std::size_t i = 0; i < bytes; ++i, ++at_) {
      if (source_[at_] == '\n') {
        ++position_.line;
        position_.column = 1;
      } else if ((static_cast<unsigned char>(source_[at_]) & 0xC0u) != 0x80u) {
        ++position_.column;
      }
    }
  }
  void add(TokenType type, std::string text) {
    tokens_.push_back(Token{type, std::move(text), position_});
  }

  static Tag tag_of(char c) {
    switch (c) {
      case '{':
        return Tag::variable;
      case '%':
        return Tag::block;
      case '#':
        return Tag::comment;
      default:
        return Tag::none;
    }
  }

  // Returns the position of the next tag, or the end of the source.
  std::size_t find_tag() const {
    for (std::size_t i = at_; (i = source_.find('{', i)) != std::string::npos; ++i)
      if (i + 1 < source_.size() && tag_of(source_[i + 1]) != Tag::none) return i;
    return source_.size();
  }

  // Returns the text before a tag, stripped by the tag's mark and lstrip_blocks. `fresh` says that
  // the text begins a line.
  static std::string_view before_tag(std::string_view text, Tag tag, char mark, bool fresh) {
    if (mark == '-') return text::strip(text, nullptr, false, true);
    if (mark == '+' || tag == Tag::variable) return text;
    const std::size_t newline = text.rfind('\n');
    if (newline == std::string_view::npos && !fresh) return text;
    const std::size_t line = newline == std::string_view::npos ? 0 : newline + 1;
    return text::strip(text.substr(line), nullptr, true, false).empty() ? text.substr(0, line)
                                                                        : text;
  }

  void add_data(std::string_view text) {
    if (!text.empty()) add(TokenType::data, std::string(text));
  }

  Status next_part() {
    const bool fresh = fresh_line_;
    const std::size_t tag_at = find_tag();
    const std::string_view text = std::string_view(source_).substr(at_, tag_at - at_);
    if (tag_at == source_.size()) {
      add_data(text);
      advance(text.size());
      return {};
    }
    const Tag tag = tag_of(source_[tag_at + 1]);
    const char mark = tag_at + 2 < source_.size() ? source_[tag_at + 2] : '\0';
    const bool marked = mark == '-' || mark == '+';
    add_data(before_tag(text, tag, mark, fresh));
    advance(text.size());
    fresh_line_ = false;
    if (tag == Tag::comment) return comment();
    if (tag == Tag::block && raw_tag_bytes("raw") > 0) return raw();
    add(tag == Tag::block ? TokenType::block_begin : TokenType::variable_begin, {});
    advance(marked ? 3 : 2);
    return expression(tag);
  }

  Status comment() {
    const std::size_t end = source_.find("#}", at_ + 2);
    if (end == std::string::npos) return wrong("the comment lacks its end, '#}'");
    const char mark = end > at_ + 2 ? source_[end - 1] : '\0';
    advance(end - at_);
    close(mark == '-' ? '-' : mark == '+' ? '+' : '\0', 2, true);
    return {};
  }

  // Skips a tag's closing bracket and the whitespace after it that the rules remove.
  void close(char mark, std::size_t bytes, bool trims_newline) {
    advance(bytes);
    if (mark == '-') {
      const std::string_view left = text::strip(rest(), nullptr, true, false);
      advance(rest().size() - left.size());
    } else if (mark != '+' && trims_newline && peek() == '\n') {
      advance(1);
    }
    fresh_line_ = at_ > 0 && source_[at_ - 1] == '\n';
  }

  // Returns the bytes of the tag `{% word %}` at this place, without its closing mark and bracket;
  // 0 if this is not such a tag.
  std::size_t raw_tag_bytes(std::string_view word) const {
    std::string_view s = rest();
    if (!s.starts_with("{%")) return 0;
    s.remove_prefix(2);
    if (s.starts_with('-') || s.starts_with('+')) s.remove_prefix(1);
    s = text::strip(s, nullptr, true, false);
    if (!s.starts_with(word)) return 0;
    s = text::strip(s.substr(word.size()), nullptr, true, false);
    if (!s.starts_with("%}") && !s.starts_with("-%}") && !s.starts_with("+%}")) return 0;
    return rest().size() - s.size();
  }

  void close_raw_tag(std::string_view word, bool trims_newline) {
    advance(raw_tag_bytes(word));
    const char mark = peek() == '%' ? '\0' : peek();
    close(mark, mark == '\0' ? 2 : 3, trims_newline);
  }

  Status raw() {
    const Position begin = position_;
    close_raw_tag("raw", false);
    const std::size_t start = at_;
    const Position text_at = position_;
    const bool fresh = fresh_line_;
    while (at_ < source_.size() && raw_tag_bytes("endraw") == 0) advance(1);
    if (at_ == source_.size())
      return fail(error_at(Code::template_error, begin, "'raw' lacks its 'endraw'",
                           std::string(damaged_hint)));
    const std::string_view text = std::string_view(source_).substr(start, at_ - start);
    const std::string_view kept = before_tag(text, Tag::block, peek(2), fresh);
    if (!kept.empty()) tokens_.push_back(Token{TokenType::data, std::string(kept), text_at});
    close_raw_tag("endraw", true);
    return {};
  }

  // Reads the inside of a block or variable tag, and its closing bracket.
  Status expression(Tag tag) {
    const std::string_view closing = tag == Tag::block ? "%}" : "}}";
    std::string brackets;
    for (;;) {
      const std::string_view left = text::strip(rest(), nullptr, true, false);
      advance(rest().size() - left.size());
      if (at_ == source_.size()) return wrong("the tag lacks its end");
      const bool marked = left[0] == '-' || (left[0] == '+' && tag == Tag::block);
      if (brackets.empty() &&
          (left.starts_with(closing) || (marked && left.substr(1).starts_with(closing)))) {
        add(tag == Tag::block ? TokenType::block_end : TokenType::variable_end, {});
        close(marked ? left[0] : '\0', marked ? 3 : 2, tag == Tag::block);
        return {};
      }
      MILLRACE_TRY(token(brackets));
    }
  }

  Status token(std::string& brackets) {
    const char c = peek();
    if (is_name_start(c)) return name();
    if (is_digit(c)) return number();
    if (c == '\'' || c == '"') return string_literal(c);
    return symbol(brackets);
  }

  Status name() {
    std::size_t n = 1;
    while (is_name_start(peek(n)) || is_digit(peek(n))) ++n;
    add(TokenType::name, std::string(rest().substr(0, n)));
    advance(n);
    return {};
  }

  std::size_t digits(std::size_t from, std::string& out) const {
    std::size_t n = from;
    while (is_digit(peek(n)) || (peek(n) == '_' && is_digit(peek(n + 1)))) {
      if (peek(n) != '_') out += peek(n);
      ++n;
    }
    return n;
  }

  Status number() {
    if (peek() == '0' && (peek(1) == 'x' || peek(1) == 'o' || peek(1) == 'b'))
      return fail(unsupported_at(position_, "a number in a base other than ten"));
    std::string out;
    std::size_t n = digits(0, out);
    bool real = false;
    const bool after_dot = !tokens_.empty() && tokens_.back().is_symbol(".");
    if (!after_dot && peek(n) == '.' && is_digit(peek(n + 1))) {
      real = true;
      out += '.';
      n = digits(n + 1, out);
    }
    const std::size_t sign = peek(n + 1) == '+' || peek(n + 1) == '-' ? 1 : 0;
    if (!after_dot && (peek(n) == 'e' || peek(n) == 'E') && is_digit(peek(n + 1 + sign))) {
      real = true;
      out += 'e';
      if (sign == 1) out += peek(n + 1);
      n = digits(n + 1 + sign, out);
    }
    add(real ? TokenType::real : TokenType::integer, std::move(out));
    advance(n);
    return {};
  }

  Status string_literal(char quote) {
    const Position begin = position_;
    std::string out;
    advance(1);
    while (peek() != quote || at_ >= source_.size()) {
      if (at_ >= source_.size())
        return fail(error_at(Code::template_error, begin, "the string lacks its closing quote",
                             std::string(damaged_hint)));
      if (peek() == '\\' && at_ + 1 < source_.size()) {
        MILLRACE_TRY(escape(out));
      } else {
        out += peek();
        advance(1);
      }
    }
    advance(1);
    tokens_.push_back(Token{TokenType::string, std::move(out), begin});
    return {};
  }

  Status escape(std::string& out) {
    constexpr std::array<std::pair<char, char>, 10> simple = {{{'n', '\n'},
                                                               {'t', '\t'},
                                                               {'r', '\r'},
                                                               {'\\', '\\'},
                                                               {'\'', '\''},
                                                               {'"', '"'},
                                                               {'a', '\a'},
                                                               {'b', '\b'},
                                                               {'f', '\f'},
                                                               {'v', '\v'}}};
    const char c = peek(1);
    for (const auto& [letter, meaning] : simple)
      if (c == letter) {
        out += meaning;
        advance(2);
        return {};
      }
    if (c == '\n') {
      advance(2);
      return {};
    }
    if (c >= '0' && c <= '7') return octal(out);
    if (c == 'x') return hex(out, 2);
    if (c == 'u') return hex(out, 4);
    if (c == 'U') return hex(out, 8);
    if (c == 'N') return fail(unsupported_at(position_, "a character by its name, '\\N{...}',"));
    out += '\\';  // an unknown escape stands for itself, as in Python
    advance(1);
    return {};
  }

  Status octal(std::string& out) {
    std::uint32_t code = 0;
    std::size_t n = 1;
    for (; n <= 3 && peek(n) >= '0' && peek(n) <= '7'; ++n)
      code = code * 8 + static_cast<std::uint32_t>(peek(n) - '0');
    text::append_utf8(out, code);
    advance(n);
    return {};
  }

  Status hex(std::string& out, std::size_t count) {
    std::uint32_t code = 0;
    for (std::size_t i = 0; i < count; ++i) {
      const char c = peek(2 + i);
      const char low = static_cast<char>(c | 0x20);
      if (!is_digit(c) && (low < 'a' || low > 'f'))
        return wrong("the string holds a truncated escape");
      code = code * 16 + static_cast<std::uint32_t>(is_digit(c) ? c - '0' : low - 'a' + 10);
    }
    if (code > 0x10FFFF || (code >= 0xD800 && code <= 0xDFFF))
      return wrong("the escape names no Unicode character");
    text::append_utf8(out, code);
    advance(2 + count);
    return {};
  }

  Status symbol(std::string& brackets) {
    constexpr std::array<std::string_view, 6> two = {"//", "**", "==", "!=", ">=", "<="};
    constexpr std::string_view one = "+-*/%~[](){}<>=.:|,";
    for (const std::string_view s : two)
      if (rest().starts_with(s)) {
        add(TokenType::symbol, std::string(s));
        advance(2);
        return {};
      }
    const char c = peek();
    if (one.find(c) == std::string_view::npos) {
      const std::size_t bytes = text::character_bytes(rest(), 0);
      return wrong("unexpected character '" + std::string(rest().substr(0, bytes)) + "'");
    }
    if (c == '(' || c == '[' || c == '{') brackets += c == '(' ? ')' : c == '[' ? ']' : '}';
    if (c == ')' || c == ']' || c == '}') {
      if (brackets.empty() || brackets.back() != c)
        return wrong(std::string("unexpected '") + c + "'");
      brackets.pop_back();
    }
    add(TokenType::symbol, std::string(1, c));
    advance(1);
    return {};
  }

  std::string source_;
  std::size_t at_ = 0;
  Position position_;
  bool fresh_line_ = true;  // the next text begins a line
  std::vector<Token> tokens_;
};

}  // namespace

Result<std::vector<Token>> tokenize(std::string_view source) {
  return Lexer(normalized(source)).run();
}

}  // namespace millrace::chat_template
