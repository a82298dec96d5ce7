#include "engine/core/tokenizer/pattern_program.hpp"

#include <string>
#include <utility>

#include "schemas/base/utf8.hpp"

namespace millrace::engine {
namespace {

constexpr std::uint32_t kUnlimited = ~0u;
constexpr std::uint32_t kMostCopies = 1024;

using Op = Instruction::Op;
using Block = std::vector<Instruction>;  // its jumps count from the jump's own place

bool ascii_letter(char32_t c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

// The letters that Unicode's simple case folding makes equal.
CharacterSet any_case(char32_t c) {
  if (!ascii_letter(c)) return CharacterSet::of(c);
  const char32_t lower = c | 0x20;
  CharacterSet set;
  set.ranges = {{lower, lower}, {lower - 0x20, lower - 0x20}};
  if (lower == 's') set.ranges.push_back({0x17f, 0x17f});    // long s
  if (lower == 'k') set.ranges.push_back({0x212a, 0x212a});  // Kelvin sign
  return set;
}

class Parser {
 public:
  explicit Parser(std::string_view text) : text_(text) {}

  Result<PatternProgram> parse() {
    MILLRACE_ASSIGN(auto code, alternatives(false));
    if (!done()) return error("unexpected ')'");
    code.push_back({Op::match});
    for (std::uint32_t at = 0; at < code.size(); ++at) {  // jumps become absolute
      if (code[at].op == Op::jump || code[at].op == Op::split) code[at].a += at;
      if (code[at].op == Op::split) code[at].b += at;
    }
    return PatternProgram{std::move(sets_), std::move(code)};
  }

 private:
  bool done() const { return at_ == text_.size(); }
  bool sees(std::string_view token) const { return text_.substr(at_).starts_with(token); }
  bool skip(std::string_view token) {
    if (!sees(token)) return false;
    at_ += token.size();
    return true;
  }
  std::unexpected<Error> error(const std::string& reason) const {
    return fail(Code::internal, "pattern, byte " + std::to_string(at_) + ": " + reason,
                "correct the pre-tokenizer's row");
  }
  char32_t character() {
    const auto step = utf8_step(text_.substr(at_));
    at_ += step.bytes;
    return step.code_point;
  }
  Block take(CharacterSet set, Op op = Op::take) {
    sets_.push_back(std::move(set));
    return {{op, static_cast<std::uint32_t>(sets_.size() - 1)}};
  }

  Result<Block> alternatives(bool ignore_case);
  Result<Block> sequence(bool ignore_case);
  Result<Block> atom(bool ignore_case);
  Result<Block> group(bool ignore_case);
  Result<Block> repeated(const Block& body);
  Result<std::uint32_t> number();
  Result<CharacterSet> escape();
  Result<CharacterSet> bracket();  // after '['

  std::string_view text_;
  std::size_t at_ = 0;
  std::vector<CharacterSet> sets_;
};

void append(Block& to, const Block& code) {
  to.insert(to.end(), code.begin(), code.end());
}

// Both may match; the first is tried first.
Block either(const Block& first, const Block& second) {
  const auto size = static_cast<std::uint32_t>(first.size());
  Block code{{Op::split, 1, size + 2}};
  append(code, first);
  code.push_back({Op::jump, static_cast<std::uint32_t>(second.size()) + 1});
  append(code, second);
  return code;
}

Result<Block> Parser::alternatives(bool ignore_case) {
  std::vector<Block> choices;
  do {
    MILLRACE_ASSIGN(auto code, sequence(ignore_case));
    choices.push_back(std::move(code));
  } while (skip("|"));
  Block code = std::move(choices.back());
  for (std::size_t i = choices.size() - 1; i-- > 0;) code = either(choices[i], code);
  return code;
}

Result<Block> Parser::sequence(bool ignore_case) {
  Block code;
  while (!done() && !sees("|") && !sees(")")) {
    MILLRACE_ASSIGN(const auto body, atom(ignore_case));
    MILLRACE_ASSIGN(const auto all, repeated(body));
    append(code, all);
  }
  return code;
}

Result<Block> Parser::atom(bool ignore_case) {
  if (skip("(")) return group(ignore_case);
  if (skip("[")) {
    if (ignore_case) return error("a set cannot ignore the case");
    MILLRACE_ASSIGN(auto set, bracket());
    return take(std::move(set));
  }
  if (skip("\\")) {
    MILLRACE_ASSIGN(auto set, escape());
    return take(std::move(set));
  }
  if (skip("$")) return take(CharacterSet::of('\n'), Op::peek);
  if (std::string_view(".^*+?{").contains(text_[at_]))
    return error("a special character stands where a character or a group is expected");
  const auto c = character();
  return take(ignore_case ? any_case(c) : CharacterSet::of(c));
}

Result<Block> Parser::group(bool ignore_case) {
  const bool negative = skip("?!");
  if (!negative && skip("?i:"))
    ignore_case = true;
  else if (!negative && !skip("?:") && sees("?"))
    return error("this kind of group is not supported");
  MILLRACE_ASSIGN(auto code, alternatives(ignore_case));
  if (!skip(")")) return error("')' is missing");
  if (!negative) return code;
  if (code.size() != 1 || code[0].op != Op::take)
    return error("a look-ahead may hold only one set");
  code[0].op = Op::peek;  // what must not follow becomes what may follow
  sets_[code[0].a].negated = !sets_[code[0].a].negated;
  return code;
}

Result<std::uint32_t> Parser::number() {
  std::uint32_t value = 0;
  const auto begin = at_;
  for (; !done() && text_[at_] >= '0' && text_[at_] <= '9'; ++at_) {
    value = value * 10 + static_cast<std::uint32_t>(text_[at_] - '0');
    if (value > kMostCopies) return error("a repetition may have 1024 copies at most");
  }
  if (at_ == begin) return error("a number is missing");
  return value;
}

Result<Block> Parser::repeated(const Block& body) {
  std::uint32_t least = 1, most = 1;
  if (skip("?")) {
    least = 0;
  } else if (skip("*")) {
    least = 0;
    most = kUnlimited;
  } else if (skip("+")) {
    most = kUnlimited;
  } else if (skip("{")) {
    MILLRACE_ASSIGN(least, number());
    most = least;
    if (skip(",")) {
      most = kUnlimited;
      if (!sees("}")) {
        MILLRACE_ASSIGN(most, number());
      }
    }
    if (!skip("}") || most < least) return error("the repetition is not {n}, {n,} or {n,m}");
  }
  if (sees("?") || sees("*") || sees("+")) return error("two quantifiers follow each other");
  Block code;
  for (std::uint32_t i = 0; i < least; ++i) append(code, body);
  const auto size = static_cast<std::uint32_t>(body.size());
  if (most == kUnlimited) {
    code.push_back({Op::split, 1, size + 2});
    append(code, body);
    code.push_back({Op::jump, 0u - (size + 1)});
    return code;
  }
  for (auto left = most - least; left > 0; --left) {  // each copy may skip all that follow
    code.push_back({Op::split, 1, left * (size + 1)});
    append(code, body);
  }
  return code;
}

Result<CharacterSet> Parser::escape() {
  if (done()) return error("the pattern ends with \\");
  if (sees("p{") || sees("P{")) {
    const bool negated = text_[at_] == 'P';
    const auto end = text_.find('}', at_);
    if (end == std::string_view::npos) return error("'}' is missing");
    auto set = CharacterSet::property(text_.substr(at_ + 2, end - at_ - 2));
    if (!set) return error("the property is not known");
    at_ = end + 1;
    set->negated = negated;
    return *std::move(set);
  }
  const auto c = character();
  if (c == 'r') return CharacterSet::of('\r');
  if (c == 'n') return CharacterSet::of('\n');
  if (c == 't') return CharacterSet::of('\t');
  if (c == 'd') return CharacterSet::digits();
  if (c == 's' || c == 'S') {
    auto set = CharacterSet::spaces();
    set.negated = c == 'S';
    return set;
  }
  if (ascii_letter(c) || (c >= '0' && c <= '9')) return error("the escape is not supported");
  return CharacterSet::of(c);
}

Result<CharacterSet> Parser::bracket() {
  CharacterSet set;
  set.negated = skip("^");
  while (!skip("]")) {
    if (done()) return error("']' is missing");
    if (skip("&&")) {
      CharacterSet rest;
      MILLRACE_ASSIGN(rest, bracket());
      set.limits.push_back(std::move(rest));
      return set;
    }
    CharacterSet item;
    if (skip("[")) {
      MILLRACE_ASSIGN(item, bracket());
    } else if (skip("\\")) {
      MILLRACE_ASSIGN(item, escape());
    } else {
      item = CharacterSet::of(character());
    }
    const bool single = item.ranges.size() == 1 && item.ranges[0].first == item.ranges[0].last;
    if (single && sees("-") && !sees("-]")) {
      skip("-");
      item.ranges[0].last = character();
    }
    set.members.push_back(std::move(item));
  }
  return set;
}

}  // namespace

Result<PatternProgram> parse_pattern(std::string_view text) {
  return Parser(text).parse();
}

}  // namespace millrace::engine
