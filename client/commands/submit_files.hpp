#pragma once
// The files of `millrace submit`: makes a job of each input line, and decides what the output may
// overwrite.
//
// A job's id consists of the batch, the line's number and its hash, so that a file that is
// submitted twice is the same batch with the same jobs; the numbers count through all files. A line
// may have an id of its own. The output may overwrite earlier results, because the same command
// writes them again; a file that holds anything else is refused. Errors: usage, conflict, io_error.
// Thread safety: one thread.
#include <cstdio>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "client/lines/input_files.hpp"
#include "client/lines/parse_line.hpp"
#include "client/link/result_wait.hpp"
#include "schemas/base/env.hpp"

namespace millrace::client {

struct SubmitPaths {
  std::vector<std::string> inputs;  // "-" is standard input
  std::string output;               // empty: standard output
  std::string errors;               // of failed lines; empty: none
  bool waits = false;               // for results, which an output needs
};

// Checks that each input is a file or standard input, and that the outputs may be written.
Status check_submit_paths(const SubmitPaths& paths);

// The error for results that a stream no longer holds: trimmed, with their lines.
Error results_gone(const std::vector<LostResult>& lost, const std::string& stream,
                   const std::string& input);

struct SubmitLineOptions {
  std::string stream, batch;  // batch empty: named after the file and its content
  std::optional<std::int64_t> not_before_us{}, deadline_us{};  // of lines that name none
  std::string deadline_text{};                                 // as it was typed
  bool strict = false;
  bool any_model = false;   // the jobs go to any engine, whatever model a line names
  bool one_stream = false;  // true: a line that names another stream is refused
};

class SubmitInput {
 public:
  // Reads standard input to its end, into a temporary file that has no name.
  static Result<std::unique_ptr<SubmitInput>> open(Env& env, const std::vector<std::string>& paths,
                                                   SubmitLineOptions options);

  const std::string& batch() const { return options_.batch; }
  const InputFiles& files() const { return *files_; }
  Result<std::uint64_t> count_lines() const;  // reads all of them
  Result<std::optional<ParsedLine>> next();   // nothing at the end of the input
  // Returns the line whose job the broker refused, with a hint that says what to do.
  ParsedLine refused(const Submission& submission) const;

 private:
  SubmitInput(std::unique_ptr<InputFiles> files, SubmitLineOptions options)
      : files_(std::move(files)), reader_(*files_), options_(std::move(options)) {}

  std::unique_ptr<InputFiles> files_;
  LineReader reader_;
  SubmitLineOptions options_;
  CustomIds custom_ids_;
};

// Writes to standard output or to a file. Where the file holds earlier results, the new ones are
// written beside it, to FILE.new, and take its place at the end. Until then the earlier ones may
// be all that exists.
class SubmitOutput {
 public:
  SubmitOutput() = default;
  ~SubmitOutput();  // removes what was written beside the file
  SubmitOutput(const SubmitOutput&) = delete;
  SubmitOutput& operator=(const SubmitOutput&) = delete;

  Status open(const std::string& path);
  // The file beside an output with earlier results; empty: there is none.
  const std::string& beside() const { return beside_; }
  Status write(const std::string& line);
  // Writes the lines of these jobs again that the earlier results have, and returns the other jobs.
  Result<std::vector<LostResult>> write_earlier(const std::vector<LostResult>& jobs,
                                                const std::function<void(bool completed)>& on_line);
  // Everything is written: replaces the earlier results.
  Status finish(Env& env);

 private:
  std::unexpected<Error> cannot_write() const;

  std::string path_, beside_;  // beside_: empty where nothing earlier is kept
  std::FILE* file_ = stdout;
};

}  // namespace millrace::client
