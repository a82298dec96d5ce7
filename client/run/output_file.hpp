#pragma once
// The output: one line an input line, appended as jobs end. On opening, what was not known to be on
// disk is cut (after a power cut it may be anything; the ledger gives it again), and every line
// before tells by its id which input line it answers, so that a line is written once whatever
// happened before. Memory: one bit an input line.
// Errors: io_error, disk_full, conflict (the file holds something else). Thread safety: one thread.
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "schemas/base/env.hpp"

namespace millrace::client {

class OutputFile {
 public:
  // The first `synced_bytes` are kept, see checkpoint.hpp.
  static Result<OutputFile> open(Env& env, const std::string& path, std::uint64_t last_number,
                                 std::uint64_t synced_bytes);

  bool holds(std::uint64_t line_number) const;
  std::uint64_t lines() const { return lines_; }
  std::uint64_t failed_lines() const { return failed_lines_; }
  std::uint64_t size() const { return size_; }
  std::uint64_t cut_bytes() const { return cut_bytes_; }  // when it was opened

  // `text` is one whole line for an input line that is not held yet. Written when flush says so or
  // enough has gathered.
  Status append(std::uint64_t line_number, std::string_view text, bool failed);
  Status flush();
  Status sync();  // everything appended is on disk when it returns
  bool dirty() const { return dirty_; }

 private:
  OutputFile(std::unique_ptr<File> file, std::uint64_t last_number)
      : file_(std::move(file)), held_(last_number + 1) {}
  Status scan(std::uint64_t synced_bytes);
  Status take_line(std::string_view start, std::uint64_t at);
  std::unexpected<Error> foreign_line(std::uint64_t at, bool twice) const;

  std::unique_ptr<File> file_;
  std::vector<bool> held_;
  std::uint64_t lines_ = 0, failed_lines_ = 0;
  std::uint64_t size_ = 0, cut_bytes_ = 0;
  std::string pending_;
  bool dirty_ = false;
};

}  // namespace millrace::client
