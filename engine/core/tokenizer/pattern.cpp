#include "engine/core/tokenizer/pattern.hpp"

#include <algorithm>
#include <map>
#include <string>
#include <utility>

#include "engine/core/tokenizer/byte_alphabet.hpp"
#include "engine/core/tokenizer/pattern_program.hpp"
#include "schemas/base/utf8.hpp"

namespace millrace::engine {

using Op = Instruction::Op;

class PatternCompiler {
 public:
  PatternCompiler(PatternProgram program, Reading reading) : program_(std::move(program)) {
    pattern_.bytes_ = reading == Reading::bytes;
  }

  Result<Pattern> compile() {
    assign_columns();
    if (members_.size() > kMostColumns) return too_large();
    state_of({});
    state_of({0});
    for (std::size_t state = 0; state < states_.size(); ++state) {
      if (states_.size() > kMostStates) return too_large();
      const Places places = states_[state];
      for (std::uint32_t column = 0; column < pattern_.columns_; ++column)
        pattern_.steps_.push_back(step(places, column));
    }
    return std::move(pattern_);
  }

 private:
  using Places = std::vector<std::uint32_t>;  // instructions, the preferred first
  static constexpr std::size_t kMostColumns = 256, kMostStates = 1 << 16;

  static std::unexpected<Error> too_large() {
    return fail(Code::internal, "the pattern needs too large a table", "simplify the pattern");
  }

  // Returns the column of the characters that belong to the same sets as this one.
  std::uint8_t column_of(char32_t code_point, unsigned category) {
    std::vector<bool> membership;
    for (const auto& set : program_.sets) membership.push_back(set.contains(code_point, category));
    const auto [found, added] = columns_.try_emplace(membership, members_.size());
    if (added) members_.push_back(std::move(membership));
    return static_cast<std::uint8_t>(found->second);
  }

  void assign_columns() {
    members_.emplace_back();  // the text's end belongs to no set
    for (unsigned byte = 0; byte < 256; ++byte) {
      const char32_t c = pattern_.bytes_ ? byte_to_code_point(static_cast<std::uint8_t>(byte))
                                         : static_cast<char32_t>(byte);
      if (pattern_.bytes_ || byte < 128)
        pattern_.byte_columns_[byte] = column_of(c, category_of(c));
    }
    auto& intervals = pattern_.intervals_;
    for (const auto& set : program_.sets) set.boundaries(intervals);
    std::erase_if(intervals, [](char32_t c) { return c < 0x80; });
    intervals.push_back(0x80);
    std::ranges::sort(intervals);
    intervals.erase(std::ranges::unique(intervals).begin(), intervals.end());
    for (const auto first : intervals)
      for (unsigned category = 0; category < kCategories; ++category)
        pattern_.category_columns_.push_back(column_of(first, category));
    pattern_.columns_ = static_cast<std::uint32_t>(members_.size());
  }

  std::uint32_t state_of(Places places) {
    const auto next = static_cast<std::uint32_t>(states_.size());
    const auto [found, added] = numbers_.try_emplace(places, next);
    if (added) states_.push_back(std::move(places));
    return found->second;
  }

  // Follows all places over one character, or to the text's end.
  std::uint32_t step(const Places& places, std::uint32_t column) {
    Places next, stack;
    std::vector<bool> seen(program_.code.size());
    bool matched = false;
    for (auto place = places.begin(); place != places.end() && !matched; ++place) {
      stack.push_back(*place);
      while (!stack.empty() && !matched) {
        const auto at = stack.back();
        stack.pop_back();
        if (seen[at]) continue;
        seen[at] = true;
        const Instruction& code = program_.code[at];
        if (code.op == Op::split) {
          stack.push_back(code.b);
          stack.push_back(code.a);
        } else if (code.op == Op::jump) {
          stack.push_back(code.a);
        } else if (code.op == Op::match) {
          matched = true;  // the places after it would never be tried
        } else if (code.op == Op::peek) {
          if (column == 0 || members_[column][code.a]) stack.push_back(at + 1);
        } else if (column != 0 && members_[column][code.a] &&
                   std::ranges::find(next, at + 1) == next.end()) {
          next.push_back(at + 1);
        }
      }
    }
    return state_of(std::move(next)) << 1 | (matched ? 1u : 0u);
  }

  PatternProgram program_;
  Pattern pattern_;
  std::map<std::vector<bool>, std::size_t> columns_;
  std::vector<std::vector<bool>> members_;  // [column][set]
  std::map<Places, std::uint32_t> numbers_;
  std::vector<Places> states_;
};

Result<Pattern> Pattern::compile(std::string_view text, Reading reading) {
  MILLRACE_ASSIGN(auto program, parse_pattern(text));
  return PatternCompiler(std::move(program), reading).compile();
}

Pattern::Character Pattern::character(std::string_view text, std::size_t position) const {
  const auto byte = static_cast<std::uint8_t>(text[position]);
  if (byte < 128 || bytes_) return {1, byte_columns_[byte]};
  const auto step = utf8_step(text.substr(position, 4));
  const bool valid = step.kind == Utf8Step::Kind::character;
  const char32_t c = valid ? step.code_point : replacement_character;
  const auto interval = std::ranges::upper_bound(intervals_, c) - intervals_.begin() - 1;
  return {valid ? step.bytes : 1,
          category_columns_[static_cast<std::size_t>(interval) * kCategories + category_of(c)]};
}

std::size_t Pattern::match(std::string_view text, std::size_t position) const {
  std::size_t at = position, end = position;
  for (std::uint32_t state = 1; state != 0;) {
    const bool more = at < text.size();
    const Character c = more ? character(text, at) : Character{0, 0};
    const auto step = steps_[std::size_t{state} * columns_ + c.column];
    if ((step & 1) != 0) end = at;
    if (!more) break;
    state = step >> 1;
    at += c.bytes;
  }
  return end;
}

std::size_t Pattern::next(std::string_view text, std::size_t position) const {
  return position + character(text, position).bytes;
}

}  // namespace millrace::engine
