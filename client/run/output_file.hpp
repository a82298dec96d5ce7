#pragma once
// The output file: one line for each input line, appended as jobs end. Opening it cuts what was not
// known to be on disk (after a power cut that may be anything; the ledger still has the results).
// The ids of the remaining lines tell which input lines they answer, so that each line is written
// once whatever happened before. Memory: one bit an input line.
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
  // Keeps at most the first `synced_bytes` of the file (see checkpoint.hpp).
  static Result<OutputFile> open(Env& env, const std::string& path, std::uint64_t last_number,
                                 std::uint64_t synced_bytes);

  // Removes the failed lines from a file that no one has open. After a crash it has all of them, or
  // none. Memory: one line.
  static Status drop_failed(Env& env, const std::string& path);

  const std::string& path() const { return file_->path(); }
  bool holds(std::uint64_t line_number) const;
  std::uint64_t lines() const { return lines_; }
  std::uint64_t failed_lines() const { return failed_lines_; }
  std::uint64_t size() const { return size_; }
  std::uint64_t cut_bytes() const { return cut_bytes_; }  // cut by open()

  // Appends one whole line for an input line that the output does not hold yet. The text is written
  // by flush(), or when enough has gathered.
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
