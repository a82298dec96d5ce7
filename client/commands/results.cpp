// `millrace results`: prints a result stream from any number on, as it grows.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <utility>

#include "client/commands/command.hpp"
#include "client/commands/model_tokens.hpp"
#include "client/commands/typed_command.hpp"
#include "client/lines/batch_line.hpp"
#include "client/lines/result_line.hpp"
#include "client/link/entry_result.hpp"
#include "client/link/stream_reader.hpp"
#include "schemas/codec.hpp"

namespace millrace::client {
namespace {

constexpr std::uint32_t tick_ms = 200;

std::unexpected<Error> cannot_write() {
  return fail(Code::io_error, "cannot write to standard output",
              "check the file or the pipe that it is redirected to");
}

bool passes_partials_on(const Welcome& welcome) {
  return std::ranges::find(welcome.capabilities, "partials") != welcome.capabilities.end();
}

struct Flags {
  BrokerFlags broker;
  std::string stream = "results", cursor, model, batch;
  std::optional<std::uint64_t> from;
  bool follow = false, partial = false;
};

class ResultsRun final : public EntrySink, public EventHandler {
 public:
  ResultsRun(const Flags& flags, bool json) : flags_(flags), json_(json) {}

  Status run();
  std::uint64_t last() const { return last_; }

  // Results of the stream.
  Status on_entries(const std::vector<Entry>& entries) override;
  Status on_stream_error(Error error) override;
  // Partials, with --partial.
  Status tick() override;
  Result<bool> take(Envelope& answer) override;

 private:
  Status check_names(EventLoop& loop);
  void tell_empty(const std::string& why);
  std::string why_empty() const;
  Result<std::uint64_t> begin(EventLoop& loop) const;
  Result<std::uint64_t> batch_begins(EventLoop& loop) const;
  Status print(const Entry& entry);
  Status print_partials(const Partials& partials);
  Status write(const std::string& line);
  static Status flush();

  const Flags& flags_;
  bool json_;
  SystemClock clock_;
  ResultLineOptions lines_;
  std::unique_ptr<Session> session_;
  std::optional<StreamReader> reader_;
  std::uint64_t last_ = 0;  // of those that reached standard output
  std::uint64_t printed_ = 0;
  bool told_empty_ = false;
};

Status ResultsRun::write(const std::string& line) {
  ++printed_;
  if (std::fwrite(line.data(), 1, line.size(), stdout) != line.size()) {
    return cannot_write();
  }
  return {};
}

Status ResultsRun::flush() {
  return std::fflush(stdout) == 0 ? Status() : cannot_write();
}

// A result that cannot be decoded may belong to any batch, so --batch leaves it out only where its
// bytes name another one. Most results of a stream are of other batches: they are not decoded.
Status ResultsRun::print(const Entry& entry) {
  if (!flags_.batch.empty()) {
    const auto batch = peek_batch(entry.body);
    if (batch && *batch != flags_.batch) {
      return {};
    }
  }
  const Result<JobResult> result = decode_entry(entry, flags_.stream);
  if (!result) {
    return write(result_line(failed_result(entry, result.error()), 0, lines_));
  }
  if (result->counts) {  // the end of a batch, in the stream `batches`
    return write(batch_line(*result));
  }
  const bool wanted = flags_.batch.empty() || result->batch == flags_.batch;
  return wanted ? write(result_line(*result, 0, lines_)) : Status();
}

Status ResultsRun::on_entries(const std::vector<Entry>& entries) {
  if (entries.empty()) {
    return {};
  }
  for (const Entry& entry : entries) {
    MILLRACE_TRY(print(entry));
  }
  MILLRACE_TRY(flush());
  last_ = entries.back().number;
  if (!flags_.cursor.empty()) {
    session_->ask(Acknowledge{flags_.stream, flags_.cursor, last_});
  }
  return {};
}

Status ResultsRun::on_stream_error(Error error) {
  if (error.code != Code::trimmed || reader_->first_kept() == 0) {
    return fail(std::move(error));
  }
  print_error(error, json_);  // reading goes on with what the broker still has
  reader_->move_to(reader_->first_kept());
  return {};
}

Status ResultsRun::tick() {
  if (flags_.partial && session_->ready() && !passes_partials_on(session_->welcome())) {
    return fail(Code::unsupported_version, "the broker does not support partial results",
                "omit --partial, or update the broker");
  }
  return {};
}

Result<bool> ResultsRun::take(Envelope& answer) {
  const auto* partials = std::get_if<Partials>(&answer.message);
  if (partials == nullptr) {
    return false;
  }
  MILLRACE_TRY(print_partials(*partials));
  return true;
}

Status ResultsRun::print_partials(const Partials& partials) {
  if (!flags_.partial || partials.stream != flags_.stream) {
    return {};
  }
  for (const PartialEntry& entry : partials.entries) {
    MILLRACE_TRY(write(partial_line(partials.stream, entry)));
  }
  return flush();
}

// A misspelt name must not look like a stream whose results are still to come. With --follow, or
// while jobs have not ended, an empty stream is no error.
Status ResultsRun::check_names(EventLoop& loop) {
  const auto named = loop.request_as<StatusAnswer>(StatusRequest{"", flags_.batch, flags_.stream});
  if (named) {
    return {};
  }
  const Error& unknown = named.error();
  if (unknown.code != Code::not_found) {
    return fail(unknown);
  }
  std::string what_comes = "waiting for it";
  if (!flags_.follow) {
    MILLRACE_ASSIGN(const StatusAnswer jobs,
                    loop.request_as<StatusAnswer>(StatusRequest{"", flags_.batch, ""}));
    const std::uint64_t to_end = jobs.counts.queued + jobs.counts.leased;
    if (to_end == 0) {
      return fail(unknown.code, unknown.message,
                  unknown.hint + ", or wait for the first result with --follow");
    }
    what_comes = "jobs still to end: " + std::to_string(to_end);
  }
  tell_empty(unknown.message + " yet; " + what_comes);
  return {};
}

void ResultsRun::tell_empty(const std::string& why) {
  if (!std::exchange(told_empty_, true)) {
    print_notice("empty", why, json_);
  }
}

// Why a stream that exists gave nothing to print.
std::string ResultsRun::why_empty() const {
  std::string from;
  if (flags_.from) {
    from = " from number " + std::to_string(*flags_.from) + " on";
  } else if (!flags_.cursor.empty()) {
    from = " after cursor " + flags_.cursor;
  }
  return "stream " + flags_.stream + " holds no result" +
         (flags_.batch.empty() ? "" : " of batch " + flags_.batch) + from +
         "; it ends with number " + std::to_string(reader_->high());
}

// The number of the stream from which on it may hold results of the batch.
Result<std::uint64_t> ResultsRun::batch_begins(EventLoop& loop) const {
  const auto& known = session_->welcome().capabilities;
  if (flags_.batch.empty() || std::ranges::find(known, "batches") == known.end()) {
    return 1;
  }
  const auto found = loop.request_as<BatchesAnswer>(BatchesRequest{.batch = flags_.batch});
  if (!found && found.error().code != Code::not_found) {
    return fail(found.error());
  }
  const bool told = found && found->batches.size() == 1 &&
                    found->batches[0].stream == flags_.stream && found->batches[0].first > 0;
  return told ? found->batches[0].first : 1;
}

Result<std::uint64_t> ResultsRun::begin(EventLoop& loop) const {
  if (flags_.from) {
    return *flags_.from;
  }
  return flags_.cursor.empty() ? batch_begins(loop) : 0;
}

Status ResultsRun::run() {
  if (!flags_.model.empty()) {
    MILLRACE_ASSIGN(lines_.token_bytes, load_token_bytes(flags_.model));
  }
  MILLRACE_ASSIGN(session_, open_session(flags_.broker, clock_, json_));
  EventLoopOptions waiting = loop_options(flags_.broker);
  waiting.absence = flags_.follow ? Absence::endured : Absence::is_failure;
  waiting.tick_ms = tick_ms;
  EventLoop loop(*session_, clock_, std::move(waiting));
  MILLRACE_TRY(check_names(loop));
  StreamReaderOptions options;
  options.stream = flags_.stream;
  options.cursor = flags_.cursor;
  MILLRACE_ASSIGN(options.from, begin(loop));
  options.follow = flags_.follow;
  reader_.emplace(*session_, clock_, options, *this);
  if (flags_.partial) {
    session_->watch(flags_.stream);
  }
  MILLRACE_TRY(loop.run({this, &*reader_}, [this] {
    return !flags_.follow && reader_->caught_up() && session_->unanswered() == 0;
  }));
  if (printed_ == 0) {
    tell_empty(why_empty());
  }
  return {};
}

// How to read what was not printed. The broker keeps the place of a cursor. The numbers of another
// log say nothing about what was printed.
std::string how_to_read_on(const Invocation& invocation, const Flags& flags, const Error& error,
                           std::uint64_t last) {
  if (last == 0 || error.code == Code::epoch_changed) {
    return "";
  }
  const std::string from = flags.cursor.empty() ? std::to_string(last + 1) : "";
  return "Read on with: " + printable_name(typed_command(invocation, "--from", from));
}

int run(const Flags& flags, const Invocation& invocation) {
  const bool json = invocation.json;
  remember_interrupts("", json);
  ResultsRun results(flags, json);
  const Status done = results.run();
  std::fflush(stdout);
  if (done) {
    return exit_all_done;
  }
  print_error_and_resume(done.error(),
                         how_to_read_on(invocation, flags, done.error(), results.last()), json);
  return exit_code(done.error());
}

}  // namespace

void add_results_command(CLI::App& app, Invocation& invocation) {
  auto* command = app.add_subcommand(
      "results",
      "Print the results of a stream, one a line.\n\n"
      "Lines are in OpenAI's batch output format.\n\n"
      "Examples:\n"
      "  millrace results results\n"
      "  millrace results results --follow --from 1000\n"
      "  millrace results results --follow --cursor loader  # goes on where it stopped\n"
      "  millrace results results --follow --partial        # also text as it comes");
  auto flags = std::make_shared<Flags>();
  command->add_option("stream", flags->stream, "name of the stream")->capture_default_str();
  command->add_flag("-f,--follow", flags->follow, "wait for more results until interrupted");
  command
      ->add_flag("--partial", flags->partial,
                 "with --follow: print text of jobs with \"partials\": true as it comes")
      ->needs("--follow");
  command
      ->add_option("--from", flags->from,
                   "first number to print [1, or where the batch began, or after the cursor]")
      ->type_name("N")
      ->check(CLI::Range(std::uint64_t{1}, most_number));
  command
      ->add_option("--cursor", flags->cursor,
                   "a named position, which the broker stores and moves as you read")
      ->type_name("NAME");
  command->add_option("--batch", flags->batch, "only results of this batch")->type_name("NAME");
  command->add_option("-m,--model", flags->model, "model file, to show tokens of logprobs as text")
      ->type_name("FILE");
  add_broker_flags(*command, flags->broker);
  command->callback([&invocation, flags] {
    invocation.action = [&invocation, flags] { return run(*flags, invocation); };
  });
}

}  // namespace millrace::client
