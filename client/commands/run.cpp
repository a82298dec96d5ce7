// `millrace run`: runs a file of jobs and writes a file of results.
#include "client/run/run.hpp"

#include <signal.h>

#include <CLI/CLI.hpp>
#include <filesystem>
#include <system_error>

#include "client/commands/command.hpp"
#include "client/commands/engine_flags.hpp"
#include "client/commands/model_tokens.hpp"
#include "client/commands/run_console.hpp"

namespace millrace::client {
namespace {

struct Flags {
  EngineChoice engine;
  RunOptions run;
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
  MILLRACE_TRY(check_named(flags.run.input, "--input"));
  MILLRACE_TRY(check_named(flags.run.output, "--output"));
  const worker::EngineFlags& engine = flags.engine.flags;
  return check_apart(flags.run.output, "--output", {engine.model, engine.kv_center});
}

int run(Flags& flags, bool json) {
  remember_interrupts(flags.run.restart ? "The same command without --restart goes on."
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
  flags.run.model = flags.engine.flags.model;
  flags.run.engine = flags.engine.program;
  flags.run.engine_arguments = flags.engine.arguments();
  flags.run.device = flags.engine.flags.device;
  flags.run.devices = flags.engine.flags.devices;
  flags.run.step_limit_s = flags.engine.flags.step_limit_s;
  flags.run.settings = flags.engine.settings();
  flags.run.interrupted = interrupted;
  flags.run.lines.token_bytes = lazy_token_bytes(flags.engine.flags.model);
  const SystemClock clock;
  RunReport report;
  Status status;
  {
    RunConsole console(json, clock);
    status = run_file(flags.run, console, report);
    if (status) {
      console.summary(report, flags.run.output);
    }
  }
  if (!status) {
    print_error_and_resume(status.error(), what_now(report, flags.run, status.error()), json);
    return exit_code(status.error());
  }
  return report.summary.progress.failed == 0 ? exit_all_done : exit_some_failed;
}

}  // namespace

void add_run_command(CLI::App& app, Invocation& invocation) {
  auto* command = app.add_subcommand("run", about);
  auto flags = std::make_shared<Flags>();
  command->add_option("-i,--input", flags->run.input, "jobs, one a line")
      ->type_name("FILE")
      ->required();
  command->add_option("-o,--output", flags->run.output, "results, one a line")
      ->type_name("FILE")
      ->required();
  auto* restart = command->add_flag("--restart", flags->run.restart,
                                    "start over; earlier results are dropped once an engine runs");
  command
      ->add_flag("--retry-failed", flags->run.retry_failed,
                 "of an earlier run, run the failed lines again, and no others")
      ->excludes(restart);
  command->add_flag("--strict", flags->run.strict, "refuse unknown fields instead of warning");
  add_engine_flags(*command, flags->engine, true);
  command->callback([&invocation, flags] {
    invocation.action = [&invocation, flags] { return run(*flags, invocation.json); };
  });
}

}  // namespace millrace::client
