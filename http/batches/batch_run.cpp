#include "http/batches/batch_run.hpp"

#include <utility>

#include "client/lines/echoed_line.hpp"
#include "client/lines/line_id.hpp"
#include "client/lines/result_line.hpp"
#include "client/link/entry_result.hpp"
#include "schemas/base/log.hpp"
#include "schemas/openai/notes.hpp"

namespace millrace::http {
namespace {

constexpr std::int64_t us_per_s = 1'000 * us_per_ms;
constexpr const char* cursor_name = "output";

using openai::BatchStatus;

// The part of a job's id that its line gives. Empty: the job is none of this batch.
std::string_view line_part(std::string_view job, const std::string& batch) {
  if (!job.starts_with(batch) || job.size() <= batch.size() || job[batch.size()] != '-') return {};
  return job.substr(batch.size() + 1);
}

}  // namespace

Status BatchRun::tick() {
  if (over_) return {};
  auto batch = parts_.batches.find(id_);
  if (!batch) return fail(Code::not_found, "the batch has no record any more");
  batch_ = *std::move(batch);
  if (!std::exchange(begun_, true)) MILLRACE_TRY(begin());
  if (check_) return check();
  if (!output_) return finish();
  MILLRACE_TRY(follow_times(batch_));
  MILLRACE_TRY(submitter_->tick());
  MILLRACE_TRY(reader_->tick());
  if (parts_.clock.monotonic_us() - synced_us_ >= us_per_s) MILLRACE_TRY(settle());
  const bool read = batch_.object.errors.empty() || reader_->caught_up();
  return submitter_->done() && open_.empty() && read ? finish() : Status();
}

bool BatchRun::busy() const {
  return check_.has_value() || (submitter_ && submitter_->busy());
}

void BatchRun::rang(const std::string& stream) {
  if (reader_) reader_->rang(stream);
}

Result<bool> BatchRun::take(Envelope& answer) {
  if (!submitter_) return false;
  MILLRACE_ASSIGN(const bool taken, submitter_->take(answer));
  if (taken) return true;
  return reader_->take(answer);
}

Status BatchRun::begin() {
  if (batch_.finishing) return {};
  if (batch_.object.in_progress_s) return open_output();
  auto input = parts_.files.open_data(batch_.object.input_file);
  if (!input && input.error().code == Code::not_found) return end_check({no_input()}, 0, 0);
  if (!input) return fail(std::move(input).error());
  check_.emplace(*std::move(input), batch_.object.endpoint);
  return {};
}

// Reads some lines of the input; after the last one the batch fails or begins.
Status BatchRun::check() {
  const bool cancelled = batch_.object.status == BatchStatus::cancelling;
  if (!cancelled) {
    MILLRACE_ASSIGN(const bool more, check_->step());
    if (more) return {};
  }
  return end_check(check_->errors(), check_->lines(), check_->last_line());
}

// The batch has been checked, or is cancelled before that.
Status BatchRun::end_check(const std::vector<openai::BatchError>& errors, std::uint64_t lines,
                           std::uint64_t last_line) {
  const bool cancelled = batch_.object.status == BatchStatus::cancelling;
  const bool bad = !cancelled && !errors.empty();
  MILLRACE_ASSIGN(batch_, parts_.batches.change(id_, [&](StoredBatch& batch) -> Status {
    openai::BatchObject& object = batch.object;
    const std::int64_t now_s = parts_.clock.wall_us() / us_per_s;
    if (bad) {
      object.status = BatchStatus::failed;
      object.failed_s = now_s;
      object.errors = errors;
      return {};
    }
    object.in_progress_s = now_s;
    if (object.status == BatchStatus::validating) object.status = BatchStatus::in_progress;
    if (cancelled) return {};  // nothing of it is submitted, so it has no lines
    object.total = lines;
    batch.last_line = last_line;
    return {};
  }));
  check_.reset();
  if (bad) {
    over_ = true;
    return {};
  }
  return open_output();
}

openai::BatchError BatchRun::no_input() const {
  return {.code = std::string(code_name(Code::not_found)),
          .message = "the file " + batch_.object.input_file + " is no longer there",
          .param = "input_file_id"};
}

Status BatchRun::open_output() {
  MILLRACE_ASSIGN(const client::Checkpoint checkpoint,
                  client::load_checkpoint(parts_.env, path("checkpoint")));
  MILLRACE_ASSIGN(
      auto output,
      client::OutputFile::open(parts_.env, path("output"), batch_.last_line,
                               checkpoint.output_bytes, {path("errors"), checkpoint.errors_bytes},
                               {.id_start = id_ + "-", .access = Access::owner}));
  output_.emplace(std::move(output));
  // Files that are shorter than they were have lost lines; the stream still has them.
  const bool whole = output_->size() >= checkpoint.output_bytes &&
                     output_->errors_size() >= checkpoint.errors_bytes;
  taken_ = whole ? checkpoint.number : 0;
  client::StreamReaderOptions options;
  options.stream = id_;
  options.from = taken_ + 1;
  options.epoch = checkpoint.epoch;
  options.cursor = cursor_name;
  reader_.emplace(session_, parts_.clock, std::move(options), *this);
  submitter_.emplace(session_, parts_.clock, *this);
  if (batch_.last_line == 0) return {};
  auto input = parts_.files.open_data(batch_.object.input_file);
  if (input) {
    input_ = *std::move(input);
    lines_.emplace(*input_);
    return {};
  }
  if (input.error().code != Code::not_found) return fail(std::move(input).error());
  return give_up_input();
}

// Nobody knows what the rest of the lines was. The results that are there become files.
Status BatchRun::give_up_input() {
  MILLRACE_ASSIGN(batch_, parts_.batches.change(id_, [&](StoredBatch& one) -> Status {
    if (one.object.errors.empty()) one.object.errors.push_back(no_input());
    return {};
  }));
  session_.ask(Cancel{.jobs = {}, .batch = id_});
  return {};
}

// A batch that is cancelled, or whose window closes, takes back what has not ended.
Status BatchRun::follow_times(const StoredBatch& batch) {
  const std::int64_t now_us = parts_.clock.wall_us(), mono_us = parts_.clock.monotonic_us();
  if (batch.object.status == BatchStatus::cancelling) {
    stop_ = {Code::cancelled, "the batch was cancelled", {}, {}};
  } else if (now_us < batch.object.expires_s * us_per_s) {
    return {};
  } else if (!stop_) {
    stop_ = {Code::expired, "the batch's completion window closed before this line ended", {}, {}};
    cancelled_us_ = mono_us;  // the jobs have the same time as their deadline, and may end by it
    MILLRACE_ASSIGN(batch_, parts_.batches.change(id_, [&](StoredBatch& one) -> Status {
      if (!one.object.expired_s) one.object.expired_s = now_us / us_per_s;
      return {};
    }));
  }
  // Jobs that are just being submitted are met the next time.
  if (!open_.empty() && mono_us - cancelled_us_ >= us_per_s) {
    cancelled_us_ = mono_us;
    session_.ask(Cancel{.jobs = {}, .batch = id_});
  }
  return {};
}

client::ParsedLine BatchRun::parse(const client::InputLine& line) const {
  client::LineOptions options;
  options.id = id_ + "-" + client::line_id(line.number, line.hash);
  options.stream = id_;
  options.batch = id_;
  options.latest_us = batch_.object.expires_s * us_per_s;
  options.own_queue = true;
  options.echo = true;
  client::ParsedLine parsed = client::parse_line(line, options);
  parsed.id = options.id;  // the job's, and that of a line that becomes none
  return parsed;
}

Result<bool> BatchRun::feed(client::Submitter& submitter) {
  if (!lines_) return false;
  client::InputLine line;
  MILLRACE_ASSIGN(const bool more, lines_->next(line));
  if (!more) {
    lines_.reset();
    input_.reset();
    return false;
  }
  if (output_->holds(line.number)) return true;
  client::ParsedLine parsed = parse(line);
  if (!parsed.error) parsed.error = stop_;
  if (parsed.error) {
    MILLRACE_TRY(write_line(line.number, client::bad_line(parsed), true));
    return true;
  }
  open_.insert(line.number);
  submitter.add(std::move(parsed.body), line.number);
  return true;
}

Status BatchRun::on_answer(const client::Submission& submission) {
  const auto& [tag, answer, refused] = submission;
  if (!open_.contains(tag)) return {};  // its result came first
  if (!answer.error) {
    if (answer.known && answer.state && is_end(*answer.state)) ended_.insert(tag);
    return {};
  }
  if (answer.error->code == Code::unauthorized || code_http_status(answer.error->code) >= 500) {
    return fail(*answer.error);  // it is not about this line: try again later
  }
  return write_line(tag, client::bad_line(client::refused_line(tag, refused, *answer.error)), true);
}

Status BatchRun::on_entries(const std::vector<Entry>& entries) {
  for (const Entry& entry : entries) {
    MILLRACE_TRY(take_entry(entry));
    taken_ = entry.number;
  }
  if (trimmed_ && entries.empty()) MILLRACE_TRY(write_lost());
  // The next fetch has not been sent yet, or just now: it finds what these jobs ended with.
  awaited_.merge(ended_);
  return {};
}

Status BatchRun::on_stream_error(Error error) {
  if (error.code == Code::trimmed) {
    trimmed_ = true;
    reader_->move_to(reader_->first_kept());
    return {};
  }
  if (error.code == Code::epoch_changed) {
    // The ledger is another one, which knows nothing of the batch: what has no result runs there.
    MILLRACE_TRY(output_->sync());
    MILLRACE_TRY(client::save_checkpoint(parts_.env, path("checkpoint"),
                                         {.epoch = {},
                                          .number = 0,
                                          .output_bytes = output_->size(),
                                          .errors_bytes = output_->errors_size()}));
  }
  return fail(std::move(error));
}

Status BatchRun::take_entry(const Entry& entry) {
  const auto id = client::parse_line_id(line_part(entry.job, id_));
  if (!id || id->number > batch_.last_line) {
    log_warn("the stream of a batch has the result of another job", {{"job", entry.job}});
    return {};
  }
  if (output_->holds(id->number)) return {};
  JobResult result = client::result_of(entry, id_);
  const bool late = stop_ && stop_->code == Code::expired && result.state == JobState::cancelled;
  if (late && !result.error) result.error = stop_;
  const bool good = result.state == JobState::completed && result.result && !result.error;
  MILLRACE_ASSIGN(const auto echoed, echoed_request(result));
  return write_line(id->number,
                    client::result_line(result, id->number,
                                        {.token_bytes = parts_.token_bytes,
                                         .request = echoed ? &*echoed : nullptr}),
                    !good);
}

// The request of a line whose answer begins with its prompt. None also where the input is gone, and
// so the batch fails.
Result<std::optional<openai::Request>> BatchRun::echoed_request(const JobResult& result) {
  if (!result.result || !result.metadata.contains(std::string(openai::echo_key))) {
    return std::nullopt;
  }
  if (!echoed_input_) {
    auto input = parts_.files.open_data(batch_.object.input_file);
    if (!input && input.error().code == Code::not_found) return std::nullopt;
    if (!input) return fail(std::move(input).error());
    echoed_input_ = *std::move(input);
  }
  return client::echoed_request(*echoed_input_, result);
}

// Lines whose jobs had ended before the last fetch was sent, and of which the stream has nothing.
Status BatchRun::write_lost() {
  if (awaited_.empty()) return {};
  MILLRACE_ASSIGN(const auto input, parts_.files.open_data(batch_.object.input_file));
  client::LineReader lines(*input);
  client::InputLine line;
  while (!awaited_.empty()) {
    MILLRACE_ASSIGN(const bool more, lines.next(line));
    if (!more) break;
    if (!awaited_.contains(line.number)) continue;
    client::ParsedLine lost = parse(line);
    lost.error = {Code::trimmed,
                  "the result of this line is no longer kept",
                  "let the broker keep results for longer (--keep-results), and send the line "
                  "again in another batch",
                  {}};
    MILLRACE_TRY(write_line(line.number, client::bad_line(lost), true));
  }
  return {};
}

Status BatchRun::write_line(std::uint64_t number, const std::string& text, bool failed) {
  MILLRACE_TRY(output_->append(number, text, failed));
  open_.erase(number);
  ended_.erase(number);
  awaited_.erase(number);
  return {};
}

Status BatchRun::settle() {
  if (!output_) return {};
  synced_us_ = parts_.clock.monotonic_us();
  parts_.batches.count(id_, output_->lines() - output_->failed_lines(), output_->failed_lines());
  if (!output_->dirty()) return {};
  MILLRACE_TRY(output_->sync());
  MILLRACE_TRY(client::save_checkpoint(parts_.env, path("checkpoint"),
                                       {.epoch = reader_->epoch(),
                                        .number = taken_,
                                        .output_bytes = output_->size(),
                                        .errors_bytes = output_->errors_size()}));
  if (taken_ > 0) session_.ask(Acknowledge{id_, cursor_name, taken_});
  return {};
}

}  // namespace millrace::http
