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
#include "client/commands/number_ranges.hpp"
#include "client/commands/room_watch.hpp"
#include "client/commands/submit_files.hpp"
#include "client/commands/times.hpp"
#include "client/lines/result_line.hpp"
#include "client/link/batch_closer.hpp"
#include "client/link/result_wait.hpp"
#include "schemas/base/json_writer.hpp"
#include "schemas/base/number_text.hpp"

namespace millrace::client {
namespace {

constexpr std::uint64_t errors_shown = 10;
constexpr std::size_t notices_shown = 20;  // of each kind, all different

struct Flags {
  BrokerFlags broker;
  std::string input, stream = "results", batch, output, model;
  std::string not_before, deadline;  // times as parse_time takes them; empty: none
  bool wait = false;
  bool close = false;  // also a batch that was named
  bool strict = false;
};

class SubmitRun final : public JobSource {
 public:
  SubmitRun(const Flags& flags, bool json) : flags_(flags), json_(json), env_(posix_env()) {}

  Status prepare();
  Status run();
  void summary() const;
  bool all_well() const { return refused_ + failed_ == 0; }

  Result<bool> feed(Submitter& submitter) override;
  Status on_answer(const Submission& submission) override;

 private:
  Status run_and_wait(EventLoop& loop, Submitter& submitter, RoomWatch& room, BatchCloser& closer);
  Status finish_output();
  Result<std::string> tally();
  Result<bool> closes() const;
  Status take(std::uint64_t line, const JobResult& result);
  Status refuse(const ParsedLine& parsed);
  void note_warnings(const ParsedLine& parsed);
  void note_waiting(const SubmitAnswer& answer);

  const Flags& flags_;
  bool json_;
  SystemClock clock_;
  std::unique_ptr<Env> env_;
  std::unique_ptr<SubmitInput> input_;
  SubmitOutput output_;
  ResultLineOptions lines_;
  std::unique_ptr<Session> session_;
  std::optional<ResultWait> wait_;  // with --wait
  std::uint64_t jobs_ = 0;          // of the lines that were read
  std::uint64_t submitted_ = 0, known_ = 0, refused_ = 0, completed_ = 0, failed_ = 0;
  std::uint64_t cancelled_ = 0;                       // of the failed jobs, or of the known ones
  std::uint64_t expired_ = 0;                         // of the failed jobs
  bool other_batch_ = false, other_stream_ = false;   // some lines name their own
  std::set<std::string> warnings_told_, waits_told_;  // notices that were printed, each once
  std::uint64_t warned_ = 0;                          // lines with warnings
  std::uint64_t left_out_ = 0;                        // jobs that the broker refused
  bool closed_ = false;                               // the batch
};

Status SubmitRun::prepare() {
  if (!flags_.output.empty() && !flags_.wait) {
    return fail(Code::usage, "--output needs --wait: without it, submit waits for no results",
                "add --wait, or read the results later with millrace results");
  }
  MILLRACE_TRY(check_submit_paths({flags_.input, flags_.output}));
  SubmitLineOptions lines{.stream = flags_.stream,
                          .batch = flags_.batch,
                          .strict = flags_.strict,
                          .one_stream = flags_.wait};
  MILLRACE_ASSIGN(lines.not_before_us,
                  parse_time(flags_.not_before, "--not-before", clock_.wall_us()));
  MILLRACE_ASSIGN(lines.deadline_us, parse_time(flags_.deadline, "--deadline", clock_.wall_us()));
  lines.deadline_text = flags_.deadline;
  MILLRACE_ASSIGN(input_, SubmitInput::open(*env_, flags_.input, std::move(lines)));
  if (flags_.wait && !flags_.model.empty()) {
    MILLRACE_ASSIGN(lines_.token_bytes, load_token_bytes(flags_.model));
  }
  return {};
}

Status SubmitRun::run() {
  MILLRACE_ASSIGN(session_, open_session(flags_.broker, clock_, json_));
  EventLoop loop(*session_, clock_, loop_options(flags_.broker));
  Submitter submitter(*session_, clock_, *this);
  RoomWatch room(
      submitter, flags_.broker.timeout_s, [this] { return tally(); }, json_);
  BatchCloser closer(*session_, submitter, input_->batch(), [this] { return closes(); });
  const Status done = flags_.wait
                          ? run_and_wait(loop, submitter, room, closer)
                          : loop.run({&submitter, &room, &closer}, [&] { return closer.done(); });
  closed_ = closer.closed();
  return done;
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
  return can_close && left_out_ == 0 && submitted_ > 0 && (flags_.close || flags_.batch.empty());
}

// Tells how many jobs were submitted, before the command ends: it reads the input to its end.
Result<std::string> SubmitRun::tally() {
  for (;;) {
    MILLRACE_ASSIGN(const std::optional<ParsedLine> parsed, input_->next());
    if (!parsed) {
      return std::to_string(submitted_) + " of " + std::to_string(jobs_) + " jobs submitted";
    }
    jobs_ += parsed->error ? 0 : 1;
  }
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
  if (!flags_.output.empty()) {
    MILLRACE_TRY(output_.open(flags_.output));
  }
  if (!output_.beside().empty()) {
    print_notice("output_beside",
                 flags_.output +
                     " keeps its earlier results until all have come; the new ones "
                     "come to " +
                     output_.beside(),
                 json_);
  }
  StreamReaderOptions stream;
  stream.stream = flags_.stream;
  stream.from = empty ? 1 : status->high + 1;
  wait_.emplace(
      *session_, clock_, stream,
      [this](std::uint64_t line, const JobResult& result) { return take(line, result); },
      [&] { return submitter.done(); });
  MILLRACE_TRY(loop.run({&submitter, &room, &closer, &*wait_},
                        [&] { return closer.done() && wait_->done(); }));
  return finish_output();
}

// A result that is gone from the stream may be in the output of an earlier call.
Status SubmitRun::finish_output() {
  MILLRACE_ASSIGN(const auto lost, output_.write_earlier(wait_->lost(), [this](bool completed) {
    ++(completed ? completed_ : failed_);
  }));
  MILLRACE_TRY(output_.finish(*env_));
  if (lost.empty()) {
    return {};
  }
  std::vector<std::uint64_t> lines;
  for (const LostResult& one : lost) {
    lines.push_back(one.tag);
  }
  return fail(Code::trimmed,
              "stream " + flags_.stream + " no longer holds the results of " +
                  std::to_string(lost.size()) + " of the lines of " + flags_.input + ": " +
                  number_ranges(std::move(lines)),
              "the other results were written; to compute these again, submit the lines with "
              "another --batch");
}

Result<bool> SubmitRun::feed(Submitter& submitter) {
  MILLRACE_ASSIGN(std::optional<ParsedLine> parsed, input_->next());
  if (!parsed) {
    return false;
  }
  if (parsed->error) {
    MILLRACE_TRY(refuse(*parsed));
    return true;
  }
  ++jobs_;
  note_warnings(*parsed);
  other_batch_ = other_batch_ || parsed->other_batch;
  other_stream_ = other_stream_ || parsed->other_stream;
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
  warned_ += parsed.warnings.empty() ? 0 : 1;
  for (const std::string& warning : parsed.warnings) {
    if (is_new(warning, warnings_told_)) {
      print_notice("warning",
                   flags_.input + " line " + std::to_string(parsed.number) + ": " + warning +
                       " (reported once; --strict refuses such lines)",
                   json_);
    }
  }
}

void SubmitRun::note_waiting(const SubmitAnswer& answer) {
  if (!answer.waits.empty() && is_new(answer.waits, waits_told_)) {
    print_notice("waits", "job " + answer.job + " waits: " + answer.waits, json_);
  }
}

Status SubmitRun::refuse(const ParsedLine& parsed) {
  ++refused_;
  if (flags_.wait) {
    return output_.write(bad_line(parsed));
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
  if (wait_) {
    MILLRACE_TRY(wait_->note_answer(submission));
  }
  if (answer.error) {
    ++left_out_;
    return refuse(input_->refused(submission));
  }
  ++submitted_;
  known_ += answer.known ? 1 : 0;
  cancelled_ += !flags_.wait && answer.known && answer.state == JobState::cancelled ? 1 : 0;
  note_waiting(answer);
  return {};
}

Status SubmitRun::take(std::uint64_t line, const JobResult& result) {
  ++(result.state == JobState::completed ? completed_ : failed_);
  cancelled_ += result.state == JobState::cancelled ? 1 : 0;
  expired_ += result.state == JobState::expired ? 1 : 0;
  return output_.write(result_line(result, line, lines_));
}

void SubmitRun::summary() const {
  if (json_) {
    std::string line;
    JsonWriter json(line);
    json.begin_object().field("event", "submitted").field("batch", input_->batch());
    json.field("stream", flags_.stream).field("submitted", submitted_).field("known", known_);
    json.field("refused", refused_)
        .field("warned", warned_)
        .field("completed", completed_)
        .field("failed", failed_)
        .field("cancelled", cancelled_)
        .field("expired", expired_)
        .field("closed", closed_);
    json.end_object();
    std::fprintf(flags_.wait ? stderr : stdout, "%s\n", line.c_str());
    return;
  }
  const auto wide = [](std::uint64_t value) { return static_cast<unsigned long long>(value); };
  if (!flags_.wait && refused_ > errors_shown) {
    std::fprintf(stderr, "millrace: %s more refused\n",
                 count_text(refused_ - errors_shown, "line").c_str());
  }
  std::fprintf(stderr, "%s submitted (%llu known already), %s refused; batch %s\n",
               count_text(submitted_, "job").c_str(), wide(known_),
               count_text(refused_, "line").c_str(), printable_name(input_->batch()).c_str());
  if (warned_ > 0) {
    std::fprintf(stderr, "%llu %s\n", wide(warned_),
                 warned_ == 1 ? "line has a warning" : "lines have warnings");
  }
  if (flags_.wait) {
    const std::string expired =
        expired_ == 0 ? "" : ", of which " + std::to_string(expired_) + " expired";
    std::fprintf(stderr, "%llu completed, %llu failed%s\n", wide(completed_), wide(failed_),
                 expired.c_str());
  } else if (submitted_ > 0) {
    const std::string batch = other_batch_ ? "" : " --batch " + input_->batch();
    std::fprintf(stderr, "Read the results with: millrace results %s%s --follow\n",
                 printable_name(flags_.stream).c_str(), printable_name(batch).c_str());
  }
  if (other_batch_ || (other_stream_ && !flags_.wait)) {
    std::fprintf(stderr, "Lines that name a batch or a stream of their own are in that one\n");
  }
  if (cancelled_ > 0) {
    std::fprintf(
        stderr,
        "%llu of those that %s were cancelled and stay cancelled. To run them, submit them "
        "with another --batch, or with another id where a line has its own.\n",
        wide(cancelled_), flags_.wait ? "failed" : "were known already");
  }
}

int run(const Flags& flags, bool json) {
  remember_interrupts("The broker keeps what was submitted. The same command goes on.", json);
  SubmitRun submit(flags, json);
  if (const Status ready = submit.prepare(); !ready) {
    return report_error(ready.error(), json);
  }
  if (const Status done = submit.run(); !done) {
    const bool stopped = done.error().code == Code::interrupted;
    print_error_and_resume(done.error(),
                           stopped ? "The broker keeps what was submitted. The same command goes "
                                     "on; millrace results " +
                                         flags.stream + " --follow prints the results."
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
                                     "The same file submitted again changes nothing.\n\n"
                                     "Examples:\n"
                                     "  millrace submit jobs.jsonl\n"
                                     "  millrace submit jobs.jsonl --wait --output results.jsonl");
  auto flags = std::make_shared<Flags>();
  command->add_option("file", flags->input, "jobs, one a line")->required();
  command->add_flag("--wait", flags->wait, "wait for the results and print them as they come");
  command->add_option("-o,--output", flags->output, "with --wait: file for the results")
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
  command->add_flag("--strict", flags->strict, "refuse unknown fields instead of warning");
  add_broker_flags(*command, flags->broker);
  command->callback([&invocation, flags] {
    invocation.action = [&invocation, flags] { return run(*flags, invocation.json); };
  });
}

}  // namespace millrace::client
