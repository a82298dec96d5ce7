#include "client/commands/submit_files.hpp"

#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <span>
#include <system_error>
#include <unordered_map>
#include <utility>

#include "client/commands/command.hpp"
#include "client/commands/input_paths.hpp"
#include "client/commands/number_ranges.hpp"
#include "client/lines/line_id.hpp"
#include "schemas/base/hash.hpp"
#include "schemas/base/json_writer.hpp"
#include "schemas/codec.hpp"

namespace millrace::client {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t batch_hash_digits = 8;
constexpr const char* beside_suffix = ".new";
constexpr std::string_view any_response = "\"response\":{\"status_code\":";
constexpr std::string_view completed_response = "\"response\":{\"status_code\":200,";

// A result line begins with its ids, which are no longer than the input line that they come from.
bool holds_something_else(const std::string& path) {
  std::ifstream file(path);
  std::string begins(limits::line_bytes, '\0');
  file.read(begins.data(), static_cast<std::streamsize>(begins.size()));
  begins.resize(static_cast<std::size_t>(file.gcount()));
  const auto line = std::string_view(begins).substr(0, begins.find('\n'));
  return !begins.empty() && !(line.starts_with("{\"id\":\"") && line.contains(any_response));
}

Status check_results_file(const std::string& path, const char* option,
                          const std::vector<std::string>& inputs) {
  MILLRACE_TRY(check_named(path, option));
  std::error_code ignored;
  for (const std::string& file : {path, path + beside_suffix}) {
    MILLRACE_TRY(check_apart(file, option, inputs));
    if (fs::is_regular_file(file, ignored) && holds_something_else(file)) {
      return fail(Code::conflict, file + " exists and does not hold results",
                  "name another " + std::string(option) + ", or remove it");
    }
  }
  return {};
}

Result<std::string> batch_of(File& file, const std::string& path) {
  Hasher128 hasher;
  std::string buffer(limits::MiB, '\0');
  for (std::uint64_t offset = 0;;) {
    MILLRACE_ASSIGN(const std::size_t got, file.read_at(offset, std::span(buffer)));
    if (got == 0) {
      break;
    }
    hasher.update(std::string_view(buffer).substr(0, got));
    offset += got;
  }
  const std::string stem = path == standard_stream ? "stdin" : fs::path(path).stem().string();
  return stem + "-" + hasher.digest().hex().substr(0, batch_hash_digits);
}

}  // namespace

Status check_submit_paths(const SubmitPaths& paths) {
  if (!paths.output.empty() && !paths.waits) {
    return fail(Code::usage, "--output needs --wait: without it, submit waits for no results",
                "add --wait, or read the results later with millrace results");
  }
  MILLRACE_TRY(check_inputs(paths.inputs));
  MILLRACE_TRY(paths.output.empty() ? Status()
                                    : check_results_file(paths.output, "--output", paths.inputs));
  if (paths.errors.empty()) {
    return {};
  }
  MILLRACE_TRY(check_results_file(paths.errors, "--errors", paths.inputs));
  const auto absolute = [](const std::string& path) {
    return fs::absolute(path).lexically_normal();
  };
  std::error_code ignored;
  const bool same = !paths.output.empty() && (absolute(paths.errors) == absolute(paths.output) ||
                                              fs::equivalent(paths.errors, paths.output, ignored));
  return same ? Status(fail(Code::usage, "--errors and --output are the same file, " + paths.output,
                            "name another file for --errors, or leave it out"))
              : Status();
}

Error results_gone(const std::vector<LostResult>& lost, const std::string& stream,
                   const std::string& input) {
  std::vector<std::uint64_t> lines;
  for (const LostResult& one : lost) {
    lines.push_back(one.tag);
  }
  return {Code::trimmed,
          "stream " + stream + " no longer holds the results of " + std::to_string(lost.size()) +
              " of the lines of " + input + ": " + number_ranges(std::move(lines)),
          "the other results were written; to compute these again, submit the lines with "
          "another --batch"};
}

Result<std::unique_ptr<SubmitInput>> SubmitInput::open(Env& env,
                                                       const std::vector<std::string>& paths,
                                                       SubmitLineOptions options) {
  MILLRACE_ASSIGN(auto input, open_inputs(env, paths));
  if (options.batch.empty()) {
    MILLRACE_ASSIGN(options.batch, batch_of(*input, paths.front()));
  }
  return std::unique_ptr<SubmitInput>(new SubmitInput(std::move(input), std::move(options)));
}

Result<std::uint64_t> SubmitInput::count_lines() const {
  LineReader reader(*files_);
  InputLine line;
  for (std::uint64_t lines = 0;; ++lines) {
    MILLRACE_ASSIGN(const bool more, reader.next(line));
    if (!more) {
      return lines;
    }
  }
}

Result<std::optional<ParsedLine>> SubmitInput::next() {
  InputLine line;
  MILLRACE_ASSIGN(const bool more, reader_.next(line));
  if (!more) {
    return std::nullopt;
  }
  LineOptions options;
  options.id = options_.batch + "/" + line_id(line.number, line.hash);
  options.stream = options_.stream;
  options.batch = options_.batch;
  options.not_before_us = options_.not_before_us;
  options.deadline_us = options_.deadline_us;
  options.strict = options_.strict;
  if (options_.any_model) {
    options.model = "*";
  }
  options.custom_ids = &custom_ids_;
  ParsedLine parsed = parse_line(line, options);
  if (!parsed.error && options_.one_stream && parsed.other_stream) {
    parsed.error = Error{
        Code::usage,
        "the line names stream " + parsed.stream + ", but --wait reads stream " + options_.stream,
        "remove the stream from the line, or name it with --stream"};
  }
  return parsed;
}

ParsedLine SubmitInput::refused(const Submission& submission) const {
  ParsedLine parsed = refused_line(submission.tag, submission.refused, *submission.answer.error);
  if (parsed.error->code == Code::conflict) {
    parsed.error->hint =
        parsed.id.starts_with(options_.batch + "/")
            ? "the batch " + options_.batch +
                  " holds this line already with another body, and --strict and --stream are part "
                  "of a body: give the same options as before, or name another --batch"
            : "the line has an id of its own, and the broker holds a job of that id with another "
              "body; batch and stream are part of a body: give the line another id";
  }
  if (parsed.error->code == Code::unknown_model) {
    parsed.error->hint += "; --any-model submits the jobs for any engine, as millrace run does";
  }
  if (parsed.error->code == Code::deadline_passed && options_.deadline_us) {
    const auto decoded = decode_job(submission.refused);
    if (decoded && decoded->job.deadline_us == options_.deadline_us) {
      parsed.error->message = "--deadline " + options_.deadline_text + " is in the past";
      parsed.error->hint = "give a later --deadline, or none";
    }
  }
  return parsed;
}

SubmitOutput::~SubmitOutput() {
  if (file_ != nullptr && file_ != stdout) {
    std::fclose(file_);
  }
  if (!beside_.empty()) {
    std::error_code ignored;
    fs::remove(beside_, ignored);
  }
}

Status SubmitOutput::open(const std::string& path) {
  std::error_code ignored;
  path_ = path;
  if (fs::is_regular_file(path, ignored) && fs::file_size(path, ignored) > 0) {
    path_ = fs::canonical(path, ignored).string();  // replaces what a symbolic link leads to
    beside_ = path_ + beside_suffix;
  }
  const std::string& written = beside_.empty() ? path_ : beside_;
  file_ = std::fopen(written.c_str(), "wb");
  if (file_ == nullptr) {
    const int reason = errno;
    beside_.clear();
    return fail(Code::io_error,
                "cannot write " + written + ": " + std::generic_category().message(reason),
                "check the path; nothing was submitted");
  }
  if (!beside_.empty()) {
    fs::permissions(beside_, fs::status(path_, ignored).permissions(), ignored);
  }
  return {};
}

std::unexpected<Error> SubmitOutput::cannot_write() const {
  const std::string& written = beside_.empty() ? path_ : beside_;
  return fail(Code::io_error, "cannot write " + (written.empty() ? "standard output" : written),
              "check that it can be written and has room; the broker keeps what was submitted");
}

Status SubmitOutput::write(const std::string& line) {
  if (std::fwrite(line.data(), 1, line.size(), file_) != line.size() || std::fflush(file_) != 0) {
    return cannot_write();
  }
  return {};
}

// An output line begins with the job's id, and nothing in a JSON string looks like the next member.
Result<std::vector<LostResult>> SubmitOutput::write_earlier(
    const std::vector<LostResult>& jobs, const std::function<void(bool completed)>& on_line) {
  std::unordered_map<std::string, LostResult> wanted;  // by how the line begins
  for (const LostResult& lost : jobs) {
    std::string begins;
    JsonWriter(begins).begin_object().field("id", lost.job);
    wanted.emplace(std::move(begins), lost);
  }
  std::ifstream earlier;
  if (!beside_.empty()) {
    earlier.open(path_);
  }
  // A line without a newline is not whole.
  for (std::string line; !wanted.empty() && std::getline(earlier, line) && !earlier.eof();) {
    if (wanted.erase(line.substr(0, line.find(",\"custom_id\":"))) > 0) {
      MILLRACE_TRY(write(line + "\n"));
      on_line(line.contains(completed_response));
    }
  }
  std::vector<LostResult> missing;
  for (auto& [begins, lost] : wanted) {
    missing.push_back(std::move(lost));
  }
  return missing;
}

Status SubmitOutput::finish(Env& env) {
  if (beside_.empty()) {
    return {};
  }
  const bool written = ::fsync(::fileno(file_)) == 0;
  const bool closed = std::fclose(std::exchange(file_, nullptr)) == 0;
  if (!written || !closed) {
    return cannot_write();
  }
  MILLRACE_TRY(env.rename(beside_, path_));
  beside_.clear();
  return {};
}

}  // namespace millrace::client
