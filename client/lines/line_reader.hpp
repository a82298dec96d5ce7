#pragma once
// Reads the lines of an input file one at a time, in bounded memory. A line over the limit is
// skipped without being held, however long it is, and reported with `too_long`.
// Errors: those of File. Thread safety: one thread.
#include <cstdint>
#include <string>
#include <string_view>

#include "schemas/base/env.hpp"
#include "schemas/base/error.hpp"
#include "schemas/base/limits.hpp"

namespace millrace::client {

inline constexpr std::string_view byte_order_mark = "\xEF\xBB\xBF";

struct InputLine {
  std::uint64_t number = 0;  // from 1, blank lines counted
  std::string_view text;     // without its line end; empty where too_long; valid until next()
  std::uint64_t bytes = 0;   // without its line end
  std::uint64_t offset = 0;  // of its text in the file; 0 where too_long
  std::uint64_t hash = 0;    // of all its bytes, also where too_long
  bool too_long = false;
};

class LineReader {
 public:
  explicit LineReader(File& file, std::uint64_t max_line_bytes = limits::line_bytes);

  // Reads the next line that is not blank (only spaces, tabs, carriage returns, vertical tabs or
  // form feeds); false at the end of the file. The last line needs no newline, lines may end with
  // CR LF, and a byte order mark is skipped.
  Result<bool> next(InputLine& line);

 private:
  Result<bool> fill();
  Result<bool> pass_long_line(std::size_t scanned, InputLine& line);
  void finish_line(std::size_t length, bool newline, InputLine& line);

  File& file_;
  std::uint64_t max_line_bytes_;
  std::uint64_t offset_ = 0;  // where the next read from the file begins
  std::uint64_t number_ = 0;
  std::string buffer_;
  std::size_t begin_ = 0;  // of the bytes that are not consumed yet
  bool at_end_ = false;
  bool started_ = false;
};

}  // namespace millrace::client
