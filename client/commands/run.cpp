// `millrace run`: runs a file of jobs and writes a file of results.
#include "client/run/run.hpp"

#include <signal.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <filesystem>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "client/commands/command.hpp"
#include "client/commands/engine_flags.hpp"
#include "client/commands/model_tokens.hpp"
#include "client/commands/run_console.hpp"
#include "schemas/base/command_help.hpp"

namespace millrace::client {
namespace {

struct Flags {
  EngineChoice engine;
  std::vector<std::string> inputs;
  std::string output, errors;
  bool restart = false, retry_failed = false, strict = false;
};

constexpr const char* about =
    "Run a file of jobs and write a file of results.\n\n"
    "The command starts its own broker and engine. After a crash, Ctrl-C or a power cut the same "
    "command goes on, and no finished line is computed again. Input lines are in OpenAI's batch "
    "format or plain jobs, output lines in OpenAI's batch output format. OUTPUT.millrace/ keeps "
    "what a run needs to go on.\n\n"
    "Example:\n"
    "  millrace run --model M.gguf --input jobs.jsonl --output results.jsonl";

std::string how_to_go_on(const RunReport& report, const RunOptions& options, const Error& error) {
  const RunProgress& progress = report.summary.progress;
  if (options.output == standard_stream) {
    return "Of " + std::to_string(progress.total) + " lines, " + std::to_string(progress.done) +
           " results were printed. A run that prints its results cannot go on: name a file for "
           "--output if it should.";
  }
  return std::to_string(progress.done) + " of " + std::to_string(progress.total) +
         " lines are in " + options.output +
         (error.code == Code::interrupted ? "; the same command"
                                          : "; once this is mended a new run") +
         (options.restart ? " without --restart" : "") + " goes on from there.";
}

// Says what the user should know about a run that did not reach its end.
std::string what_now(const RunReport& report, const RunOptions& options, const Error& error) {
  if (!report.undone) {
    return report.summary.progress.total > 0 ? how_to_go_on(report, options, error) : "";
  }
  std::error_code ignored;
  std::string now;
  if (options.restart && std::filesystem::exists(options.output, ignored)) {
    now = "What " + options.output + " held before --restart is back";
  }
  if (error.code == Code::interrupted) {
    now += now.empty() ? "The same command begins anew" : "; the same command begins anew";
  }
  return now.empty() ? now : now + ".";
}

Status check_files(const Flags& flags) {
  for (const std::string& input : flags.inputs) {
    MILLRACE_TRY(input == standard_stream ? Status() : check_named(input, "--input"));
  }
  const worker::EngineFlags& engine = flags.engine.flags;
  if (!flags.errors.empty()) {
    MILLRACE_TRY(check_named(flags.errors, "--errors"));
    MILLRACE_TRY(check_apart(flags.errors, "--errors", {engine.model, engine.kv_center}));
  }
  if (flags.output == standard_stream) {
    return flags.restart || flags.retry_failed
               ? Status(fail(Code::usage,
                             "--restart and --retry-failed are for runs whose output is a file",
                             "leave them out: a run that prints its results always begins anew"))
               : Status();
  }
  MILLRACE_TRY(check_named(flags.output, "--output"));
  return check_apart(flags.output, "--output", {engine.model, engine.kv_center});
}

// A run without a job ends well, and the file may be another one than its user meant.
void note_no_jobs(const RunOptions& options, bool json) {
  std::string names;
  for (const std::string& input : options.inputs) {
    names += (names.empty() ? "" : ", ") +
             (input == standard_stream ? std::string("standard input") : printable_name(input));
  }
  print_notice("empty",
               names + (options.inputs.size() == 1 ? " holds" : " hold") +
                   " no line with a job, so nothing was run",
               json);
}

int run(const Flags& flags, bool json) {
  const bool prints = flags.output == standard_stream;
  remember_interrupts(prints          ? "A run that prints its results cannot go on."
                      : flags.restart ? "The same command without --restart goes on."
                                      : "The same command goes on.",
                      json);
  // Results go to a file, so the run goes on when nobody reads its progress any more. Other
  // commands end by this signal, as any filter does.
  ::signal(SIGPIPE, SIG_IGN);
  if (const Status usable = flags.engine.check(); !usable) {
    return report_error(usable.error(), json);
  }
  if (const Status usable = check_files(flags); !usable) {
    return report_error(usable.error(), json);
  }
  RunOptions options = run_options(flags.engine);
  options.inputs = flags.inputs;
  options.output = flags.output;
  options.errors = flags.errors;
  options.restart = flags.restart;
  options.retry_failed = flags.retry_failed;
  options.strict = flags.strict;
  options.interrupted = interrupted;
  options.lines.token_bytes = lazy_token_bytes(options.model);
  const SystemClock clock;
  RunReport report;
  Status status;
  {
    RunConsole console(json, clock, prints ? stderr : stdout);
    options.print = [&console](std::string_view lines) { return console.print_results(lines); };
    status = run_file(options, console, report);
    if (status) {
      console.summary(report, options);
    }
  }
  if (!status) {
    print_error_and_resume(status.error(), what_now(report, options, status.error()), json);
    return exit_code(status.error());
  }
  if (report.summary.progress.total == 0) note_no_jobs(options, json);
  return report.summary.progress.failed == 0 ? exit_all_done : exit_some_failed;
}

}  // namespace

void add_run_command(CLI::App& app, Invocation& invocation) {
  auto* command = app.add_subcommand("run", about);
  auto flags = std::make_shared<Flags>();
  command->add_option("-i,--input", flags->inputs, "files of jobs; - is standard input")
      ->type_name("FILE")
      ->required();
  command
      ->add_option("-o,--output", flags->output,
                   "results, one a line; - prints them" +
                       at_length("A run that prints its results on standard output cannot go on "
                                 "after a stop."))
      ->type_name("FILE")
      ->required();
  command->add_option("--errors", flags->errors, "failed lines, in place of --output")
      ->type_name("FILE");
  auto* restart = command->add_flag("--restart", flags->restart,
                                    "start over; earlier results go once an engine runs");
  command
      ->add_flag("--retry-failed", flags->retry_failed,
                 "run the failed lines of an earlier run again")
      ->excludes(restart);
  command->add_flag("--strict", flags->strict, "refuse unknown fields instead of warning");
  add_engine_flags(*command, flags->engine, true);
  command->callback([&invocation, flags] {
    invocation.action = [&invocation, flags] { return run(*flags, invocation.json); };
  });
}

}  // namespace millrace::client
