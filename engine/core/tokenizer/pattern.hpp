#pragma once
// A regular expression as a table, which finds a match in one pass over the characters: a state for
// each list of places where a backtracking matcher could be, in the order in which it would try
// them. So it finds the same match, and never goes back. pattern_program.hpp gives the syntax.
// Thread safety: immutable.
#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include "schemas/base/error.hpp"

namespace millrace::engine {

// How a pattern reads text.
enum class Reading : std::uint8_t {
  characters,  // UTF-8; a byte that is not UTF-8 counts as U+FFFD
  bytes        // each byte as its character in byte-level BPE's alphabet (byte_alphabet.hpp)
};

class Pattern {
 public:
  // Errors: internal, if the text is not a pattern or its table would be too large.
  static Result<Pattern> compile(std::string_view text, Reading reading);

  // Returns the end of the match that begins at `position`, or `position` if none does. An empty
  // match is none. The text's end is the end of a line.
  std::size_t match(std::string_view text, std::size_t position) const;
  // Returns the end of the character at `position`.
  std::size_t next(std::string_view text, std::size_t position) const;

 private:
  friend class PatternCompiler;
  struct Character {
    std::size_t bytes;
    std::uint32_t column;
  };
  Character character(std::string_view text, std::size_t position) const;

  // Characters that no set of the pattern tells apart share a column; column 0 is the text's end.
  std::uint32_t columns_ = 0;
  std::array<std::uint8_t, 256> byte_columns_{};  // of ASCII, or of bytes
  bool bytes_ = false;
  std::vector<char32_t> intervals_;             // where each begins; the first is U+0080
  std::vector<std::uint8_t> category_columns_;  // [interval][category]
  // [state][column]: the next state times two, plus one if a match ends before the character.
  // State 0 goes nowhere; the search begins in state 1.
  std::vector<std::uint32_t> steps_;
};

}  // namespace millrace::engine
