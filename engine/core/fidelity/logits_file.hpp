#pragma once
// Rows of logits in a file, little-endian: bytes "MLOGITS1", int32 rows, int32 vocabulary, then
// float32 [rows][vocabulary]. Row i holds the logits of the token after token i. Errors of open:
// io_error, invalid_value for a file of another kind or size. Thread safety: one thread.
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "engine/core/fidelity/contexts.hpp"
#include "schemas/base/env.hpp"
#include "schemas/base/error.hpp"

namespace millrace::engine {

class LogitsFile {
 public:
  static Result<LogitsFile> open(Env& env, const std::string& path);

  const std::string& path() const { return path_; }
  std::uint32_t rows() const { return rows_; }
  std::uint32_t vocabulary() const { return vocabulary_; }

  // Returns the row of the first scored position. The file must hold either all positions of a
  // single context, or exactly the scored positions of all contexts. Errors: invalid_value.
  Result<std::uint32_t> first_row(const FidelityContexts& contexts, std::uint32_t vocabulary) const;
  // Reads rows from `first` on; `into` holds whole rows. Errors: io_error.
  Status read(std::uint32_t first, std::span<float> into);

 private:
  LogitsFile() = default;

  std::string path_;
  std::unique_ptr<File> file_;
  std::uint32_t rows_ = 0, vocabulary_ = 0;
};

}  // namespace millrace::engine
