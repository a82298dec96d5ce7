#pragma once
// The output file: one line for each input line, appended as jobs end. Opening it cuts what was not
// known to be on disk (after a power cut that may be anything; the ledger still has the results).
// The ids of the remaining lines tell which input lines they answer, so that each line is written
// once whatever happened before. Failed lines may have a file of their own, to which the same
// applies. Memory: one bit an input line.
// Errors: io_error, disk_full, conflict (the file holds something else). Thread safety: one thread.
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "schemas/base/env.hpp"

namespace millrace::client {

// Where failed lines go if not into the output (`--errors`), and how much of it is known to be on
// disk. An empty path: they go into the output.
struct ErrorsFile {
  std::string path{};
  std::uint64_t synced_bytes = 0;
};

// How the output is told apart, and who may read it.
struct OutputForm {
  std::string id_start{};  // what the jobs' ids have before the line's (line_id.hpp)
  Access access = Access::by_umask;
};

class OutputFile {
 public:
  // Keeps at most the first `synced_bytes` of the file (see checkpoint.hpp).
  static Result<OutputFile> open(Env& env, const std::string& path, std::uint64_t last_number,
                                 std::uint64_t synced_bytes, const ErrorsFile& errors = {},
                                 const OutputForm& form = {});
  // An output that begins empty: `file` is written from its beginning on, and never read.
  static Result<OutputFile> begin(Env& env, std::unique_ptr<File> file, std::uint64_t last_number,
                                  const ErrorsFile& errors = {});

  // Removes the failed lines from files that no one has open. After a crash a file has all of them,
  // or none. Memory: one line.
  static Status drop_failed(Env& env, const std::string& path, const ErrorsFile& errors = {});

  const std::string& path() const { return good_.file->path(); }
  bool holds(std::uint64_t line_number) const;
  std::uint64_t lines() const { return lines_; }
  std::uint64_t failed_lines() const { return failed_lines_; }
  std::uint64_t size() const { return good_.size; }
  std::uint64_t errors_size() const { return bad_.size; }  // 0 without a file of errors
  std::uint64_t cut_bytes() const { return good_.cut_bytes + bad_.cut_bytes; }  // cut by open()

  // Appends one whole line for an input line that the output does not hold yet. The text is written
  // by flush(), or when enough has gathered.
  Status append(std::uint64_t line_number, std::string_view text, bool failed);
  Status flush();
  Status sync();  // everything appended is on disk when it returns
  bool dirty() const { return good_.dirty || bad_.dirty; }

 private:
  struct Part {  // one of the files
    std::unique_ptr<File> file;
    std::uint64_t size = 0, cut_bytes = 0;
    std::string pending;
    bool dirty = false;
    Status flush();
    Status sync();
  };
  OutputFile(std::unique_ptr<File> file, std::uint64_t last_number) : held_(last_number + 1) {
    good_.file = std::move(file);
  }
  Status open_errors(Env& env, const ErrorsFile& errors);
  Status scan(Part& part, std::uint64_t synced_bytes);
  Status take_line(const Part& part, std::string_view start, std::uint64_t at);
  std::unexpected<Error> foreign_line(const Part& part, std::uint64_t at, bool twice) const;

  Part good_, bad_;  // bad_ has no file where failed lines go into the output
  OutputForm form_;
  std::vector<bool> held_;
  std::uint64_t lines_ = 0, failed_lines_ = 0;
};

}  // namespace millrace::client
