#include "client/run/driver.hpp"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "client/lines/line_id.hpp"
#include "client/lines/parse_line.hpp"
#include "client/lines/twin_place.hpp"
#include "client/link/entry_result.hpp"
#include "client/link/stream_reader.hpp"
#include "client/link/submitter.hpp"
#include "client/run/engine_watch.hpp"
#include "schemas/codec.hpp"
#include "schemas/openai/result_parts.hpp"

namespace millrace::client {
namespace {

constexpr const char* stream_name = "results";
constexpr const char* cursor_name = "output";
constexpr std::size_t failures_kept = 10;
constexpr std::uint64_t full_disk_patience_ms = 10'000;

class Driver final : public JobSource, public EntrySink, public EventHandler {
 public:
  Driver(RunFolder& folder, Session& session, const Clock& clock, RunObserver& observer,
         const DriverHooks& hooks, const DriverOptions& options, RunSummary& summary)
      : folder_(folder),
        session_(session),
        clock_(clock),
        observer_(observer),
        hooks_(hooks),
        options_(options),
        summary_(summary),
        output_(folder.output()),
        input_(folder.input()),
        submitter_(session, clock, *this),
        engine_(folder, session, clock, {hooks.engine_starts, hooks.engine_silent},
                options.status_ms, summary.progress),
        started_us_(clock.monotonic_us()) {}

  Status prepare();
  Status run();
  Status settle();  // makes durable what is written, also after an error

  // Submitting input lines.
  Result<bool> feed(Submitter& submitter) override;
  bool holds_back() const override;
  Status on_answer(const Submission& submission) override;
  // Writing results.
  Status on_entries(const std::vector<Entry>& entries) override;
  Status on_stream_error(Error error) override;
  // Work between two waits.
  Status tick() override;

 private:
  Status take_entry(const Entry& entry);
  void note_warnings(std::uint64_t line, const JobResult& result);
  Status write_bad_line(ParsedLine parsed);
  Status write_line(std::uint64_t number, const std::string& text,
                    const std::optional<Error>& error, const std::string& custom_id);
  std::string in_file(std::uint64_t number) const;
  Status watch_disk();
  Status sync_if_due();
  void report();

  RunFolder& folder_;
  Session& session_;
  const Clock& clock_;
  RunObserver& observer_;
  const DriverHooks& hooks_;
  const DriverOptions& options_;
  RunSummary& summary_;
  OutputFile& output_;
  LineReader input_;
  Submitter submitter_;
  EngineWatch engine_;
  std::optional<StreamReader> stream_;
  std::optional<LineIndexReader> index_;
  CustomIds custom_ids_;
  std::map<std::uint64_t, std::uint64_t> open_;  // submitted lines without output, bytes of each
  std::uint64_t open_bytes_ = 0;
  std::uint64_t taken_ = 0;               // the last stream number whose line is in the output
  std::optional<std::uint64_t> earlier_;  // the last stream number of earlier sessions
  std::int64_t started_us_;
  std::int64_t synced_us_ = 0;
  bool told_full_disk_ = false;
};

Status Driver::prepare() {
  MILLRACE_ASSIGN(LineIndexReader index, folder_.index());
  index_.emplace(std::move(index));
  // An output that is shorter than the checkpoint says has lost lines; the stream still has them.
  const Checkpoint& checkpoint = folder_.checkpoint();
  const bool whole =
      output_.size() >= checkpoint.output_bytes && output_.errors_size() >= checkpoint.errors_bytes;
  taken_ = whole ? checkpoint.number : 0;
  StreamReaderOptions reader;
  reader.stream = stream_name;
  reader.epoch = checkpoint.epoch;
  reader.from = taken_ + 1;
  reader.poll_ms = 200;
  stream_.emplace(session_, clock_, reader, *this);
  summary_.progress.total = folder_.manifest().input.lines;
  summary_.progress.before = output_.lines();
  if (output_.cut_bytes() > 0) {
    observer_.note("output_cut", "the last " + std::to_string(output_.cut_bytes()) +
                                     " bytes of the output were not known to be on disk and were "
                                     "cut; they are written again");
  }
  if (!whole) {
    observer_.note("output_replayed",
                   "the output is shorter than it was; lost lines are written again from the "
                   "ledger");
  }
  return {};
}

Status Driver::run() {
  EventLoopOptions loop_options;
  loop_options.interrupted = hooks_.interrupted;
  EventLoop loop(session_, clock_, std::move(loop_options));
  MILLRACE_TRY(loop.run({this, &submitter_, &*stream_, &engine_},
                        [this] { return submitter_.done() && open_.empty(); }));
  report();
  return index_->expect_end();
}

Status Driver::tick() {
  MILLRACE_TRY(hooks_.tick());
  MILLRACE_TRY(watch_disk());
  MILLRACE_TRY(sync_if_due());
  report();
  return {};
}

bool Driver::holds_back() const {
  return open_.size() >= options_.window_jobs || open_bytes_ >= options_.window_bytes;
}

Result<bool> Driver::feed(Submitter& submitter) {
  InputLine line;
  MILLRACE_ASSIGN(const bool more, input_.next(line));
  if (!more) {
    return false;
  }
  MILLRACE_TRY(index_->expect(line));
  LineOptions options;
  options.id = line_id(line.number, line.hash, folder_.manifest().retries);
  options.model = "*";
  options.stream = stream_name;
  options.own_queue = true;
  options.strict = options_.strict;
  options.custom_ids = &custom_ids_;
  // Parses a line that is done as well, because a later one may repeat its custom_id.
  ParsedLine parsed = parse_line(line, options);
  if (output_.holds(line.number)) {
    return true;
  }
  if (parsed.error) {
    MILLRACE_TRY(write_bad_line(std::move(parsed)));
    return true;
  }
  open_.emplace(line.number, parsed.body.size());
  open_bytes_ += parsed.body.size();
  submitter.add(std::move(parsed.body), line.number);
  return true;
}

Status Driver::on_entries(const std::vector<Entry>& entries) {
  earlier_ = earlier_.value_or(stream_->high());
  for (const Entry& entry : entries) {
    MILLRACE_TRY(take_entry(entry));
    taken_ = entry.number;
  }
  return {};
}

Status Driver::on_stream_error(Error error) {
  if (error.code != Code::epoch_changed) {
    return fail(std::move(error));
  }
  return fail(Code::epoch_changed,
              "the ledger in " + folder_.path("") + " is not the one that this run wrote to",
              "put that ledger back, or start over with --restart");
}

Status Driver::take_entry(const Entry& entry) {
  const std::optional<LineId> id = parse_line_id(entry.job);
  if (!id || id->number > folder_.manifest().input.last_number) {
    return fail(
        Code::ledger_corrupt,
        "the ledger holds a result of job " + entry.job + ", which no line of the input has",
        "start over with --restart");
  }
  if (output_.holds(id->number)) {
    return {};
  }
  JobResult result = result_of(entry, stream_name);
  const bool good = result.state == JobState::completed && result.result && !result.error;
  if (!good && id->retry < folder_.manifest().retries) {
    return {};  // the line runs again under another id
  }
  if (result.result) {
    const EngineFacts& used = result.result->effective.engine;
    MILLRACE_TRY(folder_.meet_engine(used.fingerprint, {used.kv_policy, used.kv}));
  }
  if (entry.number <= *earlier_) {
    ++summary_.progress.before;
    summary_.progress.done_at_ready += summary_.progress.ready_seconds >= 0 ? 1 : 0;
  } else if (result.result) {
    summary_.progress.prompt_tokens += result.result->usage.prompt_tokens;
    summary_.progress.cached_tokens += result.result->usage.cached_tokens;
    summary_.progress.completion_tokens += result.result->usage.completion_tokens;
  }
  place_twin(result, folder_.input());
  note_warnings(id->number, result);
  const Error unsaid{Code::engine_failed,
                     std::string("the job is ") + std::string(wire_name(result.state)), ""};
  const std::optional<Error> error =
      good ? std::nullopt : std::optional(result.error.value_or(unsaid));
  if (result.error) {
    result.error->message = in_file(id->number) + result.error->message;
  }
  const std::uint64_t line = folder_.input().place(id->number).line;
  return write_line(id->number, result_line(result, line, options_.lines), error,
                    openai::label_of(result));
}

// How the message of an error begins in the output: of several inputs with the file's name.
std::string Driver::in_file(std::uint64_t number) const {
  return folder_.input().several() ? folder_.input().place(number).file + ": " : "";
}

// Results come in any order, so the summary names the first line of the input, not the first that
// ended.
void Driver::note_warnings(std::uint64_t line, const JobResult& result) {
  const std::vector<std::string> warnings = openai::warnings_of(result);
  summary_.warned += warnings.empty() ? 0 : 1;
  const auto& first = summary_.first_warned;
  if (!warnings.empty() && (!first || line < first->line)) {
    summary_.first_warned =
        WarnedLine{line, folder_.input().place(line), folder_.input().place_text(line),
                   openai::label_of(result), warnings.front()};
  }
}

Status Driver::on_answer(const Submission& submission) {
  if (!submission.answer.error || !open_.contains(submission.tag)) {
    return {};  // the broker took the job, or its result came first
  }
  return write_bad_line(refused_line(submission.tag, submission.refused, *submission.answer.error));
}

Status Driver::write_bad_line(ParsedLine parsed) {
  const std::uint64_t number = parsed.number;
  const std::optional<Error> error = parsed.error;
  parsed.number = folder_.input().place(number).line;
  parsed.error->message = in_file(number) + parsed.error->message;
  return write_line(number, bad_line(parsed), error, parsed.custom_id.value_or(""));
}

Status Driver::write_line(std::uint64_t number, const std::string& text,
                          const std::optional<Error>& error, const std::string& custom_id) {
  MILLRACE_TRY(output_.append(number, text, error.has_value()));
  if (error && summary_.failures.size() < failures_kept) {
    summary_.failures.push_back(
        {folder_.input().place(number), folder_.input().place_text(number), custom_id, *error});
  }
  if (const auto open = open_.find(number); open != open_.end()) {
    open_bytes_ -= open->second;
    open_.erase(open);
  }
  return {};
}

// On a full disk the ledger refuses new jobs and goes on committing results. A run that has waited
// too long while no job runs ends with disk_full; everything written is safe.
Status Driver::watch_disk() {
  const std::uint64_t full_ms = submitter_.without_room_ms();
  if (full_ms == 0 || submitter_.pause_reason().code != Code::disk_full) {
    told_full_disk_ = false;
    return {};
  }
  if (!std::exchange(told_full_disk_, true)) {
    observer_.trouble("disk_full", submitter_.pause_reason());
  }
  if (full_ms > full_disk_patience_ms && summary_.progress.running == 0) {
    return fail(submitter_.pause_reason());
  }
  return {};
}

Status Driver::sync_if_due() {
  if (clock_.monotonic_us() - synced_us_ < options_.sync_ms * us_per_ms) {
    return {};
  }
  return settle();
}

Status Driver::settle() {
  synced_us_ = clock_.monotonic_us();
  if (!output_.dirty() || !stream_) {
    return {};
  }
  MILLRACE_TRY(folder_.settle(stream_->epoch(), taken_));
  if (taken_ > 0) {
    session_.ask(Acknowledge{stream_name, cursor_name, taken_});
  }
  return {};
}

void Driver::report() {
  RunProgress& progress = summary_.progress;
  progress.seconds = static_cast<double>(clock_.monotonic_us() - started_us_) / 1e6;
  if (output_.lines() != progress.done) {
    progress.ended_seconds = progress.seconds;
  }
  progress.done = output_.lines();
  progress.failed = output_.failed_lines();
  // The broker counted the running jobs earlier; some of them may be done by now.
  progress.running = std::min(progress.running, progress.total - progress.done);
  progress.engine_starts = hooks_.engine_starts();
  progress.engine_ready = engine_.joined();
  if (progress.ready_seconds < 0 && (progress.engine_ready || hooks_.engine_met())) {
    progress.ready_seconds = progress.seconds;
    progress.done_at_ready = progress.done;
  }
  observer_.progress(progress);
}

}  // namespace

Status drive(RunFolder& folder, Session& session, const Clock& clock, RunObserver& observer,
             const DriverHooks& hooks, const DriverOptions& options, RunSummary& summary) {
  Driver driver(folder, session, clock, observer, hooks, options, summary);
  MILLRACE_TRY(driver.prepare());
  Status status = driver.run();
  const Status settled = driver.settle();
  summary.progress.done = folder.output().lines();
  summary.progress.failed = folder.output().failed_lines();
  return status ? settled : status;  // the first error says more than one that followed from it
}

}  // namespace millrace::client
