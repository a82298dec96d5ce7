// `millrace submit`: a file of jobs to a running broker.
#include <CLI/CLI.hpp>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <optional>
#include <set>
#include <span>
#include <system_error>
#include <unordered_map>

#include "client/commands/command.hpp"
#include "client/commands/model_tokens.hpp"
#include "client/lines/json_writer.hpp"
#include "client/lines/parse_line.hpp"
#include "client/lines/result_line.hpp"
#include "client/link/exchange.hpp"
#include "client/run/line_id.hpp"
#include "schemas/base/env.hpp"
#include "schemas/base/hash.hpp"
#include "schemas/codec.hpp"

namespace millrace::client {
namespace {

constexpr std::size_t batch_hash_digits = 8;
constexpr std::uint64_t errors_shown = 10;
constexpr std::size_t notices_shown = 20;  // different ones of a kind

struct Flags {
  BrokerFlags broker;
  std::string input, stream = "results", batch, output, model;
  bool wait = false;
  bool strict = false;
};

class SubmitRun {
 public:
  SubmitRun(const Flags& flags, bool json) : flags_(flags), json_(json), env_(posix_env()) {}
  ~SubmitRun() {
    if (out_ != nullptr && out_ != stdout) {
      std::fclose(out_);
    }
  }
  SubmitRun(const SubmitRun&) = delete;
  SubmitRun& operator=(const SubmitRun&) = delete;

  Status prepare();
  Status run();
  void summary() const;
  bool all_well() const { return refused_ + failed_ == 0; }
  const std::string& batch() const { return batch_; }
  std::uint64_t waiting() const { return waiting_.size(); }

 private:
  Status open_output();
  Result<std::optional<NextJob>> next_job();
  Status on_answer(const Submission& submission);
  Status on_entry(const Entry& entry);
  Status refuse(const ParsedLine& parsed);
  void note_warnings(const ParsedLine& parsed);
  void note_waiting(const SubmitAnswer& answer);
  Status write(const std::string& line);

  const Flags& flags_;
  bool json_;
  std::unique_ptr<Env> env_;
  std::unique_ptr<File> file_;
  std::optional<LineReader> reader_;
  CustomIds custom_ids_;
  ResultLineOptions lines_;
  std::string batch_;
  std::FILE* out_ = stdout;
  std::unordered_map<std::string, std::uint64_t> waiting_;  // job id to line, with --wait
  std::uint64_t submitted_ = 0, known_ = 0, refused_ = 0, completed_ = 0, failed_ = 0;
  std::uint64_t cancelled_ = 0;                       // of those that failed, or were known
  bool other_batch_ = false, other_stream_ = false;   // some lines name their own
  std::set<std::string> warnings_told_, waits_told_;  // notices that were printed: each once
  std::uint64_t warned_ = 0;                          // lines
};

// Results are written anew, as the same command given again does; anything else stays. A result's
// ids come first, and are no longer than the line that they are from.
bool holds_something_else(const std::string& path) {
  std::ifstream file(path);
  std::string begins(limits::line_bytes, '\0');
  file.read(begins.data(), static_cast<std::streamsize>(begins.size()));
  begins.resize(static_cast<std::size_t>(file.gcount()));
  const auto line = std::string_view(begins).substr(0, begins.find('\n'));
  const std::string_view response = "\"response\":{\"status_code\":";
  return !begins.empty() && !(line.starts_with("{\"id\":\"") && line.contains(response));
}

Status check_paths(const Flags& flags) {
  namespace fs = std::filesystem;
  MILLRACE_TRY(check_named(flags.input, "the input"));
  std::error_code ignored;
  const fs::file_status input = fs::status(flags.input, ignored);
  if (!fs::exists(input)) {
    return fail(Code::usage, "the input " + flags.input + " does not exist", "check the path");
  }
  if (!fs::is_regular_file(input)) {
    return fail(Code::usage, "the input " + flags.input + " is not a regular file",
                "write the jobs to a file first: it is read twice");
  }
  if (!flags.output.empty()) MILLRACE_TRY(check_named(flags.output, "--output"));
  if (!flags.output.empty() && !flags.wait) {
    return fail(Code::usage, "--output holds results, which only --wait waits for",
                "add --wait, or read them later with millrace results");
  }
  MILLRACE_TRY(check_apart(flags.output, "--output", {flags.input}));
  if (fs::is_regular_file(flags.output, ignored) && holds_something_else(flags.output)) {
    return fail(Code::conflict, flags.output + " exists and does not hold results",
                "name another --output, or remove it");
  }
  return {};
}

// The batch is named after the file and its content, so that the same file submitted twice is the
// same batch with the same jobs.
Status SubmitRun::prepare() {
  MILLRACE_TRY(check_paths(flags_));
  MILLRACE_ASSIGN(file_, env_->open(flags_.input, OpenMode::read));
  if (flags_.wait && !flags_.model.empty()) {
    MILLRACE_ASSIGN(lines_.token_bytes, load_token_bytes(flags_.model));
  }
  batch_ = flags_.batch;
  if (batch_.empty()) {
    Hasher128 hasher;
    std::string buffer(limits::MiB, '\0');
    for (std::uint64_t offset = 0;;) {
      MILLRACE_ASSIGN(const std::size_t got, file_->read_at(offset, std::span(buffer)));
      if (got == 0) {
        break;
      }
      hasher.update(std::string_view(buffer).substr(0, got));
      offset += got;
    }
    batch_ = std::filesystem::path(flags_.input).stem().string() + "-" +
             hasher.digest().hex().substr(0, batch_hash_digits);
  }
  reader_.emplace(*file_);
  return {};
}

// Not before a broker has answered: until then what is there may be all there is.
Status SubmitRun::open_output() {
  if (flags_.output.empty()) {
    return {};
  }
  out_ = std::fopen(flags_.output.c_str(), "wb");
  if (out_ == nullptr) {
    return fail(Code::io_error,
                "cannot write " + flags_.output + ": " + std::generic_category().message(errno),
                "check the path; nothing was submitted");
  }
  return {};
}

Status SubmitRun::run() {
  const SystemClock clock;
  MILLRACE_ASSIGN(auto session, open_session(flags_.broker, clock, json_));
  Exchange work;
  work.next_job = [this] { return next_job(); };
  work.on_answer = [this](const Submission& submission) { return on_answer(submission); };
  work.done = [this] { return waiting_.empty(); };
  work.interrupted = interrupted;
  work.give_up_ms = std::uint64_t{flags_.broker.timeout_s} * 1000;
  if (flags_.wait) {
    MILLRACE_ASSIGN(const StatusAnswer status,
                    session->request_as<StatusAnswer>(
                        StatusRequest{.job = {}, .batch = {}, .stream = flags_.stream},
                        flags_.broker.timeout_s * 1000));
    MILLRACE_TRY(open_output());
    StreamReaderOptions stream;
    stream.stream = flags_.stream;
    stream.from = status.high + 1;
    work.stream = stream;
    work.on_entry = [this](const Entry& entry) { return on_entry(entry); };
    work.rewind_for_known = true;
  }
  return exchange(*session, clock, work);
}

Result<std::optional<NextJob>> SubmitRun::next_job() {
  while (true) {
    InputLine line;
    MILLRACE_ASSIGN(const bool more, reader_->next(line));
    if (!more) {
      return std::nullopt;
    }
    LineOptions options;
    options.id = batch_ + "/" + line_id(line.number, line.hash);
    options.stream = flags_.stream;
    options.batch = batch_;
    options.strict = flags_.strict;
    options.custom_ids = &custom_ids_;
    ParsedLine parsed = parse_line(line, options);
    if (parsed.error) {
      MILLRACE_TRY(refuse(parsed));
      continue;
    }
    note_warnings(parsed);
    other_batch_ = other_batch_ || parsed.other_batch;
    other_stream_ = other_stream_ || parsed.other_stream;
    if (flags_.wait) {
      if (parsed.stream != flags_.stream) {
        parsed.error = Error{
            Code::usage,
            "the line names stream " + parsed.stream + ", and --wait reads stream " + flags_.stream,
            "leave the line's stream out, or name it with --stream"};
        MILLRACE_TRY(refuse(parsed));
        continue;
      }
      waiting_.emplace(parsed.id, line.number);
    }
    return NextJob{std::move(parsed.body), line.number};
  }
}

bool is_new(const std::string& notice, std::set<std::string>& told) {
  return told.size() < notices_shown && told.insert(notice).second;
}

// The results will say it too, but a misspelt field should be known before they are computed.
void SubmitRun::note_warnings(const ParsedLine& parsed) {
  warned_ += parsed.warnings.empty() ? 0 : 1;
  for (const std::string& warning : parsed.warnings) {
    if (is_new(warning, warnings_told_)) {
      print_notice("warning",
                   flags_.input + " line " + std::to_string(parsed.number) + ": " + warning +
                       " (said once; --strict refuses such lines)",
                   json_);
    }
  }
}

void SubmitRun::note_waiting(const SubmitAnswer& answer) {
  if (!answer.waits.empty() && is_new(answer.waits, waits_told_)) {
    print_notice("waits", "job " + answer.job + " waits: " + answer.waits, json_);
  }
}

Status SubmitRun::write(const std::string& line) {
  if (std::fwrite(line.data(), 1, line.size(), out_) != line.size() || std::fflush(out_) != 0) {
    return fail(Code::io_error,
                "cannot write " + (flags_.output.empty() ? "standard output" : flags_.output),
                "check where it goes and that there is room; what was submitted stays submitted");
  }
  return {};
}

Status SubmitRun::refuse(const ParsedLine& parsed) {
  ++refused_;
  if (flags_.wait) {
    return write(bad_line(parsed));
  }
  if (refused_ <= errors_shown) {
    Error error = *parsed.error;
    error.message = flags_.input + " line " + std::to_string(parsed.number) + ": " + error.message;
    print_error(error, json_);
  }
  return {};
}

Status SubmitRun::on_answer(const Submission& submission) {
  const SubmitAnswer& answer = submission.answer;
  if (!answer.error) {
    ++submitted_;
    known_ += answer.known ? 1 : 0;
    cancelled_ += !flags_.wait && answer.known && answer.state == JobState::cancelled ? 1 : 0;
    note_waiting(answer);
    return {};
  }
  ParsedLine parsed = refused_line(submission.tag, submission.refused, *answer.error);
  const auto waiting = waiting_.find(parsed.id);
  if (waiting != waiting_.end() && waiting->second == submission.tag) {
    waiting_.erase(waiting);
  }
  if (parsed.error->code == Code::conflict) {
    parsed.error->hint =
        parsed.id.starts_with(batch_ + "/")
            ? "the batch " + batch_ +
                  " has this line already, submitted with another body: --strict and "
                  "--stream are part of it; give the same as before, or name another --batch"
            : "the line has an id of its own, and a job of that id is there already with another "
              "body, of which batch and stream are part: give the line another id";
  }
  return refuse(parsed);
}

Status SubmitRun::on_entry(const Entry& entry) {
  const auto waiting = waiting_.find(entry.job);
  if (waiting == waiting_.end()) {
    return {};  // another producer's
  }
  MILLRACE_ASSIGN(const JobResult result, decode_result(entry.body));
  MILLRACE_TRY(write(result_line(result, waiting->second, lines_)));
  waiting_.erase(waiting);
  ++(result.state == JobState::completed ? completed_ : failed_);
  cancelled_ += result.state == JobState::cancelled ? 1 : 0;
  return {};
}

void SubmitRun::summary() const {
  if (json_) {
    std::string line;
    JsonWriter json(line);
    json.begin_object().field("event", "submitted").field("batch", batch_);
    json.field("stream", flags_.stream).field("submitted", submitted_).field("known", known_);
    json.field("refused", refused_)
        .field("warned", warned_)
        .field("completed", completed_)
        .field("failed", failed_)
        .field("cancelled", cancelled_);
    json.end_object();
    std::fprintf(flags_.wait ? stderr : stdout, "%s\n", line.c_str());
    return;
  }
  const auto wide = [](std::uint64_t value) { return static_cast<unsigned long long>(value); };
  if (!flags_.wait && refused_ > errors_shown) {
    std::fprintf(stderr, "millrace: and %llu more lines were refused\n",
                 wide(refused_ - errors_shown));
  }
  std::fprintf(stderr, "%llu jobs submitted (%llu were known), %llu lines refused; batch %s\n",
               wide(submitted_), wide(known_), wide(refused_), batch_.c_str());
  if (warned_ > 0) {
    std::fprintf(stderr, "%llu %s\n", wide(warned_),
                 warned_ == 1 ? "line has a warning" : "lines have warnings");
  }
  if (flags_.wait) {
    std::fprintf(stderr, "%llu completed, %llu failed\n", wide(completed_), wide(failed_));
  } else if (submitted_ > 0) {
    const std::string batch = other_batch_ ? "" : " --batch " + batch_;
    std::fprintf(stderr, "Read the results with: millrace results %s%s --follow\n",
                 flags_.stream.c_str(), batch.c_str());
  }
  if (other_batch_ || (other_stream_ && !flags_.wait)) {
    std::fprintf(stderr, "Lines that name a batch of their own, or a stream, are in that one\n");
  }
  if (cancelled_ > 0) {
    std::fprintf(stderr,
                 "%llu of those that %s were cancelled, and stay so: submit with another --batch "
                 "runs them, or with another id where the line has its own\n",
                 wide(cancelled_), flags_.wait ? "failed" : "were known");
  }
}

int run(const Flags& flags, bool json) {
  remember_interrupts("What was submitted stays with the broker. The same command goes on.", json);
  SubmitRun submit(flags, json);
  if (const Status ready = submit.prepare(); !ready) {
    return report_error(ready.error(), json);
  }
  if (const Status done = submit.run(); !done) {
    const bool stopped = done.error().code == Code::interrupted;
    print_error_and_resume(done.error(),
                           stopped ? "What was submitted stays with the broker. The same command "
                                     "goes on; millrace results " +
                                         flags.stream + " --follow reads what comes."
                                   : "",
                           json);
    return exit_code(done.error());
  }
  submit.summary();
  return submit.all_well() ? exit_all_done : exit_some_failed;
}

}  // namespace

void add_submit_command(CLI::App& app, Invocation& invocation) {
  auto* command = app.add_subcommand("submit",
                                     "Submit a file of jobs to a running broker\n\n"
                                     "Submitting the same file again changes nothing.\n\n"
                                     "Examples:\n"
                                     "  millrace submit jobs.jsonl\n"
                                     "  millrace submit jobs.jsonl --wait --output results.jsonl");
  auto flags = std::make_shared<Flags>();
  command->add_option("file", flags->input, "jobs, one a line")->required();
  command->add_flag("--wait", flags->wait, "wait for the results and print them as they come");
  command->add_option("-o,--output", flags->output, "with --wait: a file for them");
  command->add_option("-m,--model", flags->model,
                      "with --wait: model file, to print logprobs' tokens as text");
  command->add_option("--stream", flags->stream, "result stream")->capture_default_str();
  command->add_option("--batch", flags->batch, "batch name [the file's name and a hash of it]");
  command->add_flag("--strict", flags->strict, "refuse unknown fields instead of warning");
  add_broker_flags(*command, flags->broker, true);
  command->callback([&invocation, flags] {
    invocation.action = [&invocation, flags] { return run(*flags, invocation.json); };
  });
}

}  // namespace millrace::client
