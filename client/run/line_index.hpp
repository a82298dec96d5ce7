#pragma once
// The index of a run's input in OUTPUT.millrace/lines: number and hash of every non-blank line, 16
// bytes each, little-endian, written before the run begins. It tells whether the input is still the
// one that the run began with, and which line differs, without holding the input.
// Errors: io_error, input_changed. Thread safety: one thread.
#include <cstdint>
#include <memory>
#include <string>

#include "client/lines/input_files.hpp"
#include "client/lines/line_reader.hpp"
#include "schemas/base/env.hpp"
#include "schemas/base/hash.hpp"

namespace millrace::client {

struct InputSummary {
  std::uint64_t lines = 0;        // non-blank
  std::uint64_t last_number = 0;  // of the last non-blank line
  std::string hash;               // of all numbers and hashes
  friend bool operator==(const InputSummary&, const InputSummary&) = default;
};

// Reads the whole input once and writes the index, synced.
Result<InputSummary> write_line_index(Env& env, File& input, const std::string& path);

// Reads the whole input once and compares it with an index. Errors: input_changed with the first
// line that differs, of several inputs with its file; ledger_corrupt if the index is not as long as
// the summary says.
Status check_line_index(Env& env, InputFiles& input, const std::string& path,
                        const InputSummary& expected);

// Walks an index in step with the input, while the lines are submitted.
class LineIndexReader {
 public:
  // `input` is used for the places of lines, and must outlive the reader.
  LineIndexReader(std::unique_ptr<File> file, const InputFiles& input)
      : file_(std::move(file)), input_(&input) {}
  // Checks that `line` is the next line of the index. Errors: input_changed, io_error.
  Status expect(const InputLine& line);
  // Checks that the index holds no more lines. Errors: input_changed, io_error.
  Status expect_end();

 private:
  Result<bool> next(std::uint64_t& number, std::uint64_t& hash);
  std::string place_text(std::uint64_t number) const;

  std::unique_ptr<File> file_;
  const InputFiles* input_;
  std::uint64_t offset_ = 0;
  std::string buffer_;
  std::size_t begin_ = 0;
};

}  // namespace millrace::client
