#pragma once
// Reads the input of a batch before anything runs, some lines at a time. A line has to be a request
// in OpenAI's batch format for the batch's endpoint, with a custom_id of its own. What is wrong
// inside a request is not looked for: it becomes an error of that line.
// Errors: those of File. Thread safety: one thread.
#include <cstdint>
#include <memory>
#include <vector>

#include "client/lines/custom_ids.hpp"
#include "client/lines/line_reader.hpp"
#include "client/lines/parse_line.hpp"
#include "schemas/openai/batch_object.hpp"

namespace millrace::http {

class BatchCheck {
 public:
  static constexpr std::size_t most_errors = 100;  // that are told; no more lines are read then

  static constexpr std::uint64_t most_lines = 1'000'000;

  BatchCheck(std::unique_ptr<File> input, openai::Endpoint endpoint,
             std::uint64_t lines_at_most = most_lines)
      : file_(std::move(input)),
        reader_(*file_),
        endpoint_(endpoint),
        lines_at_most_(lines_at_most) {}

  // Reads on. False: there is nothing more to read.
  Result<bool> step();
  std::uint64_t lines() const { return lines_; }
  std::uint64_t last_line() const { return last_line_; }  // number of the last line
  // Empty after the last step: the batch may run.
  const std::vector<openai::BatchError>& errors() const { return errors_; }

 private:
  void check(const client::InputLine& line);

  std::unique_ptr<File> file_;
  client::LineReader reader_;
  const openai::Endpoint endpoint_;
  const std::uint64_t lines_at_most_;
  client::CustomIds custom_ids_;
  std::uint64_t lines_ = 0, last_line_ = 0;
  std::vector<openai::BatchError> errors_;
};

}  // namespace millrace::http
