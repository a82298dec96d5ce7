// `millrace submit`: submits a file of jobs to a running broker.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "client/commands/command.hpp"
#include "client/commands/model_tokens.hpp"
#include "client/commands/room_watch.hpp"
#include "client/commands/run_console.hpp"
#include "client/commands/submit_files.hpp"
#include "client/commands/submit_progress.hpp"
#include "client/commands/submit_summary.hpp"
#include "client/commands/times.hpp"
#include "client/lines/result_line.hpp"
#include "client/lines/twin_place.hpp"
#include "client/link/batch_closer.hpp"
#include "client/link/result_wait.hpp"

namespace millrace::client {
namespace {

constexpr std::uint64_t errors_shown = 10;
constexpr std::size_t notices_shown = 20;  // of each kind, all different

struct Flags {
  BrokerFlags broker;
  std::vector<std::string> inputs;
  std::string stream = "results", batch, output, errors, model;
  std::string not_before, deadline;  // times as parse_time takes them; empty: none
  bool wait = false;
  bool close = false;  // also a batch that was named
  bool strict = false;
  bool any_model = false;
};

class SubmitRun final : public JobSource {
 public:
  SubmitRun(const Flags& flags, bool json)
      : flags_(flags), json_(json), env_(posix_env()), console_(json, clock_, stderr) {}

  Status prepare();
  Status run();
  void summary() const;
  void clear_line() { console_.clear_line(); }
  bool all_well() const { return tally_.refused + tally_.failed == 0; }

  Result<bool> feed(Submitter& submitter) override;
  Status on_answer(const Submission& submission) override;

 private:
  Status run_and_wait(EventLoop& loop, Submitter& submitter, RoomWatch& room, BatchCloser& closer);
  Status open_output(SubmitOutput& output, const std::string& path);
  Status finish_output();
  Result<std::string> read_on();
  Result<bool> closes() const;
  Status take(std::uint64_t line, JobResult result);
  Status refuse(ParsedLine parsed);
  Status write(const std::string& line, bool failed);
  void tell(const char* event, const std::string& message);
  std::string in_file(std::uint64_t line) const;
  void note_warnings(const ParsedLine& parsed);
  void note_waiting(const SubmitAnswer& answer);

  const Flags& flags_;
  bool json_;
  SystemClock clock_;
  std::unique_ptr<Env> env_;
  std::unique_ptr<SubmitInput> input_;
  RunConsole console_;
  SubmitOutput output_, errors_;  // errors_: without a file where failed lines go to the output
  ResultLineOptions lines_;
  std::unique_ptr<Session> session_;
  std::optional<ResultWait> wait_;          // with --wait
  std::optional<SubmitProgress> progress_;  // likewise
  std::vector<LostResult> failed_before_;   // without --wait: jobs that ended badly earlier
  SubmitTally tally_;
  std::set<std::string> warnings_told_, waits_told_;  // notices that were printed, each once
};

Status SubmitRun::prepare() {
  MILLRACE_TRY(check_submit_paths({flags_.inputs, flags_.output, flags_.errors, flags_.wait}));
  SubmitLineOptions lines{.stream = flags_.stream,
                          .batch = flags_.batch,
                          .strict = flags_.strict,
                          .any_model = flags_.any_model,
                          .one_stream = flags_.wait};
  MILLRACE_ASSIGN(lines.not_before_us,
                  parse_time(flags_.not_before, "--not-before", clock_.wall_us()));
  MILLRACE_ASSIGN(lines.deadline_us, parse_time(flags_.deadline, "--deadline", clock_.wall_us()));
  lines.deadline_text = flags_.deadline;
  MILLRACE_ASSIGN(input_, SubmitInput::open(*env_, flags_.inputs, std::move(lines)));
  if (!flags_.errors.empty()) {
    MILLRACE_TRY(open_output(errors_, flags_.errors));
  }
  if (flags_.wait && !flags_.model.empty()) {
    MILLRACE_ASSIGN(lines_.token_bytes, load_token_bytes(flags_.model));
  }
  return {};
}

Status SubmitRun::run() {
  MILLRACE_ASSIGN(session_,
                  open_session(flags_.broker, clock_, json_, [this] { console_.clear_line(); }));
  EventLoop loop(*session_, clock_, loop_options(flags_.broker));
  Submitter submitter(*session_, clock_, *this);
  RoomWatch room(
      submitter, flags_.broker.timeout_s, [this] { return read_on(); },
      [this](const char* event, const std::string& text) { tell(event, text); });
  BatchCloser closer(*session_, submitter, input_->batch(), [this] { return closes(); });
  const Status done = flags_.wait
                          ? run_and_wait(loop, submitter, room, closer)
                          : loop.run({&submitter, &room, &closer}, [&] { return closer.done(); });
  tally_.closed = closer.closed();
  MILLRACE_TRY(done);
  // Without --wait no result comes, and the file may be all that tells of these failures.
  MILLRACE_TRY(errors_.write_earlier(failed_before_, [](bool) {}));
  return errors_.finish(*env_);
}

// Whether the batch is closed once every job of the file is stored. No more can come to a batch
// that is named after the file and its content, so that it finishes when they have ended. A job
// that the broker refused may be submitted again, so then the batch stays open.
Result<bool> SubmitRun::closes() const {
  const auto& known = session_->welcome().capabilities;
  const bool can_close = std::ranges::find(known, "batches") != known.end();
  if (flags_.close && !can_close) {
    return fail(Code::unsupported_version, "the broker cannot close batches",
                "omit --close, or update the broker");
  }
  return can_close && tally_.left_out == 0 && tally_.submitted > 0 &&
         (flags_.close || flags_.batch.empty());
}

// Tells how many jobs were submitted, before the command ends: it reads the input to its end.
Result<std::string> SubmitRun::read_on() {
  for (;;) {
    MILLRACE_ASSIGN(const std::optional<ParsedLine> parsed, input_->next());
    if (!parsed) {
      return std::to_string(tally_.submitted) + " of " + std::to_string(tally_.jobs) +
             " jobs submitted";
    }
    tally_.jobs += parsed->error ? 0 : 1;
  }
}

Status SubmitRun::open_output(SubmitOutput& output, const std::string& path) {
  if (!path.empty()) {
    MILLRACE_TRY(output.open(path));
  }
  if (!output.beside().empty()) {
    tell("output_beside", path +
                              " keeps its earlier results until all have come; the new ones "
                              "come to " +
                              output.beside());
  }
  return {};
}

// Reads the stream from its present end on.
Status SubmitRun::run_and_wait(EventLoop& loop, Submitter& submitter, RoomWatch& room,
                               BatchCloser& closer) {
  const auto status =
      loop.request_as<StatusAnswer>(StatusRequest{.job = {}, .batch = {}, .stream = flags_.stream});
  const bool empty = !status && status.error().code == Code::not_found;
  if (!status && !empty) {
    return fail(status.error());
  }
  MILLRACE_TRY(open_output(output_, flags_.output));
  StreamReaderOptions stream;
  stream.stream = flags_.stream;
  stream.from = empty ? 1 : status->high + 1;
  wait_.emplace(
      *session_, clock_, stream,
      [this](std::uint64_t line, const JobResult& result) { return take(line, result); },
      [&] { return submitter.done(); });
  MILLRACE_ASSIGN(const std::uint64_t lines, input_->count_lines());
  progress_.emplace(*session_, clock_, console_, input_->batch(), lines);
  MILLRACE_TRY(loop.run({&submitter, &room, &closer, &*wait_, &*progress_},
                        [&] { return closer.done() && wait_->done(); }));
  console_.clear_line();
  return finish_output();
}

// A result that is gone from the stream may be in the output of an earlier call.
Status SubmitRun::finish_output() {
  const auto count = [this](bool completed) { ++(completed ? tally_.completed : tally_.failed); };
  MILLRACE_ASSIGN(auto lost, output_.write_earlier(wait_->lost(), count));
  MILLRACE_ASSIGN(lost, errors_.write_earlier(lost, count));
  MILLRACE_TRY(output_.finish(*env_));
  MILLRACE_TRY(errors_.finish(*env_));
  return lost.empty() ? Status()
                      : Status(fail(results_gone(lost, flags_.stream, input_->files().path())));
}

Result<bool> SubmitRun::feed(Submitter& submitter) {
  MILLRACE_ASSIGN(std::optional<ParsedLine> parsed, input_->next());
  if (!parsed) {
    return false;
  }
  if (parsed->error) {
    MILLRACE_TRY(refuse(std::move(*parsed)));
    return true;
  }
  ++tally_.jobs;
  note_warnings(*parsed);
  tally_.other_batch = tally_.other_batch || parsed->other_batch;
  tally_.other_stream = tally_.other_stream || parsed->other_stream;
  if (wait_) {
    wait_->expect(parsed->id, parsed->number);
  }
  submitter.add(std::move(parsed->body), parsed->number);
  return true;
}

bool is_new(const std::string& notice, std::set<std::string>& told) {
  return told.size() < notices_shown && told.insert(notice).second;
}

// The results carry the warnings too, but the user should learn of a misspelt field before the
// engine computes.
void SubmitRun::note_warnings(const ParsedLine& parsed) {
  if (!parsed.warnings.empty() && tally_.warned++ == 0) {
    tally_.first_warned = in_file(parsed.number);
  }
  for (const std::string& warning : parsed.warnings) {
    if (is_new(warning, warnings_told_)) {
      tell("warning", in_file(parsed.number) + ": " + warning +
                          " (reported once; --strict refuses such lines)");
    }
  }
}

void SubmitRun::tell(const char* event, const std::string& message) {
  console_.clear_line();
  print_notice(event, message, json_);
}

std::string SubmitRun::in_file(std::uint64_t line) const {
  const InputPlace place = input_->files().place(line);
  return place.file + " line " + std::to_string(place.line);
}

Status SubmitRun::write(const std::string& line, bool failed) {
  console_.clear_line();
  return (failed && !flags_.errors.empty() ? errors_ : output_).write(line);
}

void SubmitRun::note_waiting(const SubmitAnswer& answer) {
  if (!answer.waits.empty() && is_new(answer.waits, waits_told_)) {
    tell("waits", "job " + answer.job + " waits: " + answer.waits);
  }
}

// Of several inputs, the error says in which file its line is.
Status SubmitRun::refuse(ParsedLine parsed) {
  ++tally_.refused;
  if (progress_) {
    progress_->refused();
  }
  const std::string where = in_file(parsed.number);
  const InputPlace place = input_->files().place(parsed.number);
  Error error = *parsed.error;
  if (!flags_.wait && tally_.refused <= errors_shown) {
    error.message = where + ": " + error.message;
    print_error(error, json_);
  }
  parsed.number = place.line;
  if (input_->files().several()) {
    parsed.error->message = place.file + ": " + parsed.error->message;
  }
  return flags_.wait || !flags_.errors.empty() ? write(bad_line(parsed), true) : Status();
}

Status SubmitRun::on_answer(const Submission& submission) {
  const SubmitAnswer& answer = submission.answer;
  if (wait_) {
    MILLRACE_TRY(wait_->note_answer(submission));
  }
  if (answer.error) {
    ++tally_.left_out;
    return refuse(input_->refused(submission));
  }
  ++tally_.submitted;
  tally_.known += answer.known ? 1 : 0;
  tally_.cancelled += !flags_.wait && answer.known && answer.state == JobState::cancelled ? 1 : 0;
  const bool ended = answer.known && answer.state && is_end(*answer.state);
  if (progress_ && ended) {
    progress_->known_end();
  }
  if (!flags_.wait && !flags_.errors.empty() && ended && answer.state != JobState::completed) {
    failed_before_.push_back({submission.tag, answer.job});
  }
  note_waiting(answer);
  return {};
}

Status SubmitRun::take(std::uint64_t line, JobResult result) {
  const bool completed = result.state == JobState::completed;
  ++(completed ? tally_.completed : tally_.failed);
  tally_.cancelled += result.state == JobState::cancelled ? 1 : 0;
  tally_.expired += result.state == JobState::expired ? 1 : 0;
  progress_->ended(result);
  place_twin(result, input_->files());
  const InputPlace place = input_->files().place(line);
  if (result.error && input_->files().several()) {
    result.error->message = place.file + ": " + result.error->message;
  }
  return write(result_line(result, place.line, lines_), !completed);
}

void SubmitRun::summary() const {
  print_submit_summary(tally_, {.batch = input_->batch(),
                                .stream = flags_.stream,
                                .errors = flags_.errors,
                                .broker = repeated(flags_.broker),
                                .waited = flags_.wait,
                                .shown = errors_shown,
                                .json = json_});
}

int run(Flags flags, bool json) {
  flags.output = flags.output == "-" ? "" : flags.output;  // which is standard output already
  remember_interrupts("The broker keeps what was submitted. The same command goes on.", json);
  SubmitRun submit(flags, json);
  if (const Status ready = submit.prepare(); !ready) {
    return report_error(ready.error(), json);
  }
  if (const Status done = submit.run(); !done) {
    submit.clear_line();
    const bool stopped = done.error().code == Code::interrupted;
    print_error_and_resume(done.error(),
                           stopped ? "The broker keeps what was submitted. The same command goes "
                                     "on; millrace results " +
                                         flags.stream + " --follow" + repeated(flags.broker) +
                                         " prints the results."
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
                                     "Submit a file of jobs to a running broker.\n\n"
                                     "The same file, or the same text on standard input (-), "
                                     "submitted again changes nothing.\n\n"
                                     "Examples:\n"
                                     "  millrace submit jobs.jsonl\n"
                                     "  millrace submit jobs.jsonl --wait --output results.jsonl");
  auto flags = std::make_shared<Flags>();
  command->add_option("file", flags->inputs, "jobs, one a line; - is standard input")->required();
  command->add_flag("--wait", flags->wait, "wait for the results and print them as they come");
  command->add_option("-o,--output", flags->output, "with --wait: file for the results")
      ->type_name("FILE");
  command->add_option("--errors", flags->errors, "file for refused lines and failed jobs")
      ->type_name("FILE");
  command
      ->add_option("-m,--model", flags->model,
                   "with --wait: model file, to show tokens of logprobs as text")
      ->type_name("FILE");
  command->add_option("--stream", flags->stream, "stream for the results")
      ->type_name("NAME")
      ->capture_default_str();
  command
      ->add_option("--batch", flags->batch,
                   "batch of the jobs [the file's name and a hash of its content]")
      ->type_name("NAME");
  command
      ->add_option("--not-before", flags->not_before,
                   "hand the jobs out from this time on: +2h, or 2030-01-31T22:00:00Z")
      ->type_name("TIME");
  command
      ->add_option("--deadline", flags->deadline,
                   "jobs that have not ended by this time expire: +2h, or 2030-01-31T22:00:00Z")
      ->type_name("TIME");
  command->add_flag("--close", flags->close,
                    "let no jobs come after these [where --batch is not given]");
  command->add_flag("--any-model", flags->any_model,
                    "for any engine, whatever models the lines name, as run does");
  command->add_flag("--strict", flags->strict, "refuse unknown fields instead of warning");
  add_broker_flags(*command, flags->broker);
  command->callback([&invocation, flags] {
    invocation.action = [&invocation, flags] { return run(*flags, invocation.json); };
  });
}

}  // namespace millrace::client
