#pragma once
// Reads lines of text for `tokenize` and `score` from a file, or from standard input.
// Errors: io_error, with the path and the system's reason. Thread safety: one thread.
#include <cstdint>
#include <fstream>
#include <istream>
#include <memory>
#include <string>

#include "schemas/base/error.hpp"

namespace millrace::client {

class TextInput {
 public:
  static Result<TextInput> open(const std::string& path);  // empty: standard input

  // Reads the next line, without its newline; false at the end.
  Result<bool> next(std::string& line);
  std::uint64_t number() const { return number_; }  // of the last line, from 1

 private:
  explicit TextInput(std::string name) : name_(std::move(name)) {}

  std::string name_;
  std::unique_ptr<std::ifstream> file_;  // empty: standard input
  std::uint64_t number_ = 0;
};

// Refuses text that is not UTF-8, because its damaged bytes would be lost in silence. Errors:
// invalid_utf8.
Status check_text(const std::string& line);

}  // namespace millrace::client
