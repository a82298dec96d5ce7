#include "client/run/driver.hpp"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "client/lines/parse_line.hpp"
#include "client/lines/result_fields.hpp"
#include "client/link/stream_reader.hpp"
#include "client/link/submitter.hpp"
#include "client/run/engine_text.hpp"
#include "client/run/line_id.hpp"
#include "schemas/codec.hpp"

namespace millrace::client {
namespace {

constexpr const char* stream_name = "results";
constexpr const char* cursor_name = "output";
constexpr std::int64_t us_per_ms = 1'000;
constexpr std::uint32_t poll_ms = 50;
constexpr std::size_t failures_kept = 10;
constexpr double rate_weight = 0.3;  // of the newest rate: it is counted over one second
constexpr int lines_at_once = 256;   // parsed between two looks at the socket
constexpr std::int64_t silence_patience_us = 10'000'000;
constexpr std::int64_t full_disk_patience_us = 10'000'000;

class Driver {
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
        submitter_(session, clock),
        started_us_(clock.monotonic_us()) {}

  Status prepare();
  Status run();
  Status settle();  // what is written is made safe, also after an error

 private:
  struct OpenLine {  // submitted, without its output line
    std::uint64_t hash = 0, bytes = 0;
  };

  bool finished() const { return input_done_ && open_.empty() && submitter_.unanswered() == 0; }
  Status read_input();
  Status read_line();
  Status take(Envelope& answer);
  Status take_entry(const Entry& entry);
  void note_warnings(std::uint64_t line, const JobResult& result);
  Status take_submission(const Submission& submission);
  Status take_status(const StatusAnswer& status);
  void watch_silence();
  Status write_bad_line(const LineId& id, const ParsedLine& parsed);
  Status write_line(std::uint64_t number, const std::string& text, const Error* error,
                    const std::string& custom_id);
  Status watch_disk();
  Status sync_if_due();
  void ask_status_if_due();
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
  std::optional<StreamReader> stream_;
  std::optional<LineIndexReader> index_;
  CustomIds custom_ids_;
  std::map<std::uint64_t, OpenLine> open_;
  std::uint64_t open_bytes_ = 0;
  bool input_done_ = false;
  std::uint64_t taken_ = 0;               // the last stream number whose line is in the output
  std::optional<std::uint64_t> earlier_;  // the last one that an earlier session left behind
  std::int64_t started_us_;
  std::int64_t synced_us_ = 0, status_us_ = 0, disk_full_us_ = 0, engine_lost_us_ = 0;
  std::uint64_t status_question_ = 0;
  std::uint32_t starts_met_ = 0;  // engine starts that have been seen joined
};

Status Driver::prepare() {
  MILLRACE_ASSIGN(LineIndexReader index, folder_.index());
  index_.emplace(std::move(index));
  // An output that is shorter than it was at the checkpoint has lost lines: they are in the stream.
  const Checkpoint& checkpoint = folder_.checkpoint();
  const bool whole = output_.size() >= checkpoint.output_bytes;
  taken_ = whole ? checkpoint.number : 0;
  StreamReaderOptions reader;
  reader.stream = stream_name;
  reader.epoch = checkpoint.epoch;
  reader.from = taken_ + 1;
  reader.poll_ms = 200;
  stream_.emplace(session_, clock_, reader);
  summary_.progress.total = folder_.manifest().input.lines;
  summary_.progress.before = output_.lines();
  if (output_.cut_bytes() > 0) {
    observer_.note("output_cut", "the last " + std::to_string(output_.cut_bytes()) +
                                     " bytes of the output were not known to be on disk and were "
                                     "cut: they are written again");
  }
  if (!whole) {
    observer_.note("output_replayed",
                   "the output is shorter than it was: lines are taken from the ledger again");
  }
  return {};
}

Status Driver::run() {
  std::vector<Envelope> answers;
  std::vector<Bell> bells;
  while (!finished()) {
    if (hooks_.interrupted()) {
      return fail(Code::interrupted, "stopped by a signal");
    }
    MILLRACE_TRY(hooks_.tick());
    MILLRACE_TRY(read_input());
    submitter_.tick();
    stream_->tick(true);
    ask_status_if_due();
    const bool more_input = !input_done_ && submitter_.has_room() &&
                            open_.size() < options_.window_jobs &&
                            open_bytes_ < options_.window_bytes;
    MILLRACE_TRY(session_.poll(more_input ? 0 : poll_ms, answers, bells));
    stream_->rang(bells);
    for (Envelope& answer : answers) {
      MILLRACE_TRY(take(answer));
    }
    answers.clear();
    bells.clear();
    MILLRACE_TRY(watch_disk());
    MILLRACE_TRY(sync_if_due());
    report();
  }
  return index_->expect_end();
}

Status Driver::read_input() {
  for (int i = 0; i < lines_at_once; ++i) {
    if (input_done_ || !submitter_.has_room() || open_.size() >= options_.window_jobs ||
        open_bytes_ >= options_.window_bytes) {
      break;
    }
    MILLRACE_TRY(read_line());
  }
  submitter_.flush();
  return {};
}

Status Driver::read_line() {
  InputLine line;
  MILLRACE_ASSIGN(const bool more, input_.next(line));
  if (!more) {
    input_done_ = true;
    return {};
  }
  MILLRACE_TRY(index_->expect(line));
  const LineId id{line.number, line.hash};
  LineOptions options;
  options.id = line_id(id.number, id.hash);
  options.model = "*";
  options.stream = stream_name;
  options.own_queue = true;
  options.strict = options_.strict;
  options.custom_ids = &custom_ids_;
  // Lines that are done are parsed as well: later ones may repeat their custom_id.
  ParsedLine parsed = parse_line(line, options);
  if (output_.holds(line.number)) {
    return {};
  }
  if (parsed.error) {
    return write_bad_line(id, parsed);
  }
  open_.emplace(line.number, OpenLine{line.hash, parsed.body.size()});
  open_bytes_ += parsed.body.size();
  submitter_.add(std::move(parsed.body), line.number);
  return {};
}

Status Driver::take(Envelope& answer) {
  if (answer.id == status_question_) {
    status_question_ = 0;
    const auto* status = std::get_if<StatusAnswer>(&answer.message);
    return status == nullptr ? Status() : take_status(*status);
  }
  std::vector<Entry> entries;
  const Result<bool> of_stream = stream_->take(answer, entries);
  if (!of_stream && of_stream.error().code == Code::epoch_changed) {
    return fail(Code::epoch_changed,
                "the ledger in " + folder_.path("") + " is another one than this run wrote to",
                "put that ledger back, or start over with --restart");
  }
  MILLRACE_TRY(of_stream);
  if (*of_stream) {
    earlier_ = earlier_.value_or(stream_->high());
    for (const Entry& entry : entries) {
      MILLRACE_TRY(take_entry(entry));
      taken_ = entry.number;
    }
    return {};
  }
  std::vector<Submission> done;
  MILLRACE_TRY(submitter_.take(answer, done));
  for (const Submission& submission : done) {
    MILLRACE_TRY(take_submission(submission));
  }
  return {};
}

Status Driver::take_entry(const Entry& entry) {
  const std::optional<LineId> id = parse_line_id(entry.job);
  if (!id || id->number > folder_.manifest().input.last_number) {
    return fail(Code::ledger_corrupt,
                "the ledger holds a result of job " + entry.job + ", which is no line of the input",
                "start over with --restart");
  }
  if (output_.holds(id->number)) {
    return {};
  }
  MILLRACE_ASSIGN(const JobResult result, decode_result(entry.body));
  const std::string text = result_line(result, id->number, options_.lines);
  const bool good = result.state == JobState::completed && result.result && !result.error;
  Error unsaid{Code::engine_failed,
               std::string("the job is ") + std::string(wire_name(result.state)), ""};
  if (result.result) {
    const EffectiveSettings& used = result.result->effective;
    MILLRACE_TRY(folder_.meet_engine(used.fingerprint, {used.kv_policy, used.kv}));
  }
  if (entry.number <= *earlier_) {
    ++summary_.progress.before;
    summary_.progress.done_at_ready += summary_.progress.ready_seconds >= 0 ? 1 : 0;
  } else if (result.result) {
    summary_.progress.prompt_tokens += result.result->usage.prompt_tokens;
    summary_.progress.completion_tokens += result.result->usage.completion_tokens;
  }
  note_warnings(id->number, result);
  const Error* error = good ? nullptr : result.error ? &*result.error : &unsaid;
  return write_line(id->number, text, error, result.custom_id);
}

// Results come in any order: the summary names the first line of the input, not the first to end.
void Driver::note_warnings(std::uint64_t line, const JobResult& result) {
  const std::vector<std::string> warnings = warnings_of(result);
  summary_.warned += warnings.empty() ? 0 : 1;
  const auto& first = summary_.first_warned;
  if (!warnings.empty() && (!first || line < first->line)) {
    summary_.first_warned = WarnedLine{line, result.custom_id, warnings.front()};
  }
}

Status Driver::take_submission(const Submission& submission) {
  const auto open = open_.find(submission.tag);
  if (!submission.answer.error || open == open_.end()) {
    return {};  // taken, or its result came first
  }
  return write_bad_line({submission.tag, open->second.hash},
                        refused_line(submission.tag, submission.refused, *submission.answer.error));
}

Status Driver::take_status(const StatusAnswer& status) {
  summary_.progress.running = status.counts.leased;
  double rate = 0;
  for (const EngineInfo& engine : status.engines) rate += engine.tokens_per_second;
  double& shown = summary_.progress.tokens_per_second_now;
  const bool goes_on = shown > 0 && !status.engines.empty();  // a second without a token is no stop
  shown = goes_on ? shown + rate_weight * (rate - shown) : rate;
  const bool joined_before = starts_met_ == hooks_.engine_starts();
  if (!status.engines.empty()) {
    engine_lost_us_ = 0;
  } else if (joined_before) {
    watch_silence();
  }
  if (!status.engines.empty() && !joined_before) {
    const EngineInfo& engine = status.engines.front();
    MILLRACE_TRY(folder_.meet_engine(engine.fingerprint, {kv_policy_of(engine), engine.kv}));
    starts_met_ = hooks_.engine_starts();
  }
  return {};
}

// The broker has dropped an engine that is silent (a stopped process, for one); one that is alive
// comes back within seconds.
void Driver::watch_silence() {
  const std::int64_t now = clock_.monotonic_us();
  if (engine_lost_us_ == 0) {
    engine_lost_us_ = now;
  } else if (now - engine_lost_us_ > silence_patience_us) {
    engine_lost_us_ = 0;
    hooks_.engine_silent();
  }
}

Status Driver::write_bad_line(const LineId& id, const ParsedLine& parsed) {
  return write_line(id.number, bad_line(line_id(id.number, id.hash), parsed), &*parsed.error,
                    parsed.custom_id.value_or(""));
}

Status Driver::write_line(std::uint64_t number, const std::string& text, const Error* error,
                          const std::string& custom_id) {
  MILLRACE_TRY(output_.append(number, text, error != nullptr));
  if (error != nullptr && summary_.failures.size() < failures_kept) {
    summary_.failures.push_back({number, custom_id, *error});
  }
  if (const auto open = open_.find(number); open != open_.end()) {
    open_bytes_ -= open->second.bytes;
    open_.erase(open);
  }
  return {};
}

// The ledger refuses new jobs on a full disk and goes on committing results. When nothing helps for
// a while the run ends, with everything safe.
Status Driver::watch_disk() {
  if (!submitter_.paused() || submitter_.pause_reason().code != Code::disk_full) {
    disk_full_us_ = 0;
    return {};
  }
  const std::int64_t now = clock_.monotonic_us();
  if (disk_full_us_ == 0) {
    disk_full_us_ = now;
    observer_.trouble("disk_full", submitter_.pause_reason());
  }
  if (now - disk_full_us_ > full_disk_patience_us && summary_.progress.running == 0) {
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

void Driver::ask_status_if_due() {
  const std::int64_t now = clock_.monotonic_us();
  const bool hurry = starts_met_ != hooks_.engine_starts();
  const std::int64_t pause = (hurry ? 100 : options_.status_ms) * us_per_ms;
  if (status_question_ == 0 && now - status_us_ > pause) {
    status_us_ = now;
    status_question_ = session_.ask(StatusRequest{});
  }
}

void Driver::report() {
  RunProgress& progress = summary_.progress;
  progress.done = output_.lines();
  progress.failed = output_.failed_lines();
  progress.running = std::min(progress.running, progress.total - progress.done);  // told before
  progress.engine_starts = hooks_.engine_starts();
  progress.engine_ready = starts_met_ == progress.engine_starts;
  progress.seconds = static_cast<double>(clock_.monotonic_us() - started_us_) / 1e6;
  if (progress.engine_ready && progress.ready_seconds < 0) {
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
  return status ? settled : status;  // the first error tells more than what followed from it
}

}  // namespace millrace::client
