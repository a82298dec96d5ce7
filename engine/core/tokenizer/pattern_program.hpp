#pragma once
// Parses a regular expression into a program for a backtracking matcher; pattern.hpp makes it a
// table. The syntax is the part of Oniguruma's that published tokenizers use:
//   characters                         \r \n \t \s \S \d \p{L} \P{L} and \ before a symbol
//   [...] with ranges, ^, nested sets and && for the intersection
//   | (...) (?:...) (?i:...)           the last ignores the case of ASCII letters
//   ? * + {n} {n,} {n,m}               greedy; each may repeat only what is not empty
//   (?!\S) (or another single set)     looks at the next character
//   $                                  looks for a line's or the text's end
// Thread safety: pure functions.
#include <cstdint>
#include <string_view>
#include <vector>

#include "engine/core/tokenizer/character_set.hpp"
#include "schemas/base/error.hpp"

namespace millrace::engine {

struct Instruction {
  enum class Op : std::uint8_t {
    take,   // a character of sets[a]
    jump,   // goes on at a
    split,  // goes on at a, or if that fails at b
    peek,   // goes on if the next character is in sets[a] or the text ends
    match
  };
  Op op = Op::match;
  std::uint32_t a = 0, b = 0;
};

struct PatternProgram {
  std::vector<CharacterSet> sets;
  std::vector<Instruction> code;
};

// Errors: internal, with the position; patterns are constants of this program.
Result<PatternProgram> parse_pattern(std::string_view text);

}  // namespace millrace::engine
