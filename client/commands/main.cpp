#include <signal.h>

#include <CLI/CLI.hpp>
#include <string>

#include "client/commands/command.hpp"
#include "schemas/base/log.hpp"

namespace {

constexpr const char* about =
    "Generated text in bulk, and no job lost.\n\n"
    "Examples:\n"
    "  millrace run --model M.gguf --input jobs.jsonl --output results.jsonl\n"
    "  millrace submit jobs.jsonl --wait\n"
    "  millrace results results --follow\n"
    "  echo 'Hello world' | millrace tokenize --model M.gguf\n\n"
    "Exit codes: 0 all done, 1 some jobs failed, 2 usage, 3 refused, 4 broker unreachable,\n"
    "130 interrupted (and how to go on is said).";

}  // namespace

int main(int argc, char** argv) {
  using namespace millrace;
  ::signal(SIGPIPE, SIG_IGN);
  CLI::App app(about, "millrace");
  client::Invocation invocation;
  LogOptions log;
  std::string level = "error";
  app.set_version_flag("--version", std::string("millrace ") + MILLRACE_VERSION);
  app.add_option("--log-level", level, "trace, debug, info, warn, error or off")
      ->capture_default_str();
  app.add_flag("--log-json", log.json, "one JSON object a log line");
  app.add_flag("--json", invocation.json, "machine-readable output, one JSON object a line");
  app.require_subcommand(1);
  app.fallthrough();
  client::add_run_command(app, invocation);
  client::add_submit_command(app, invocation);
  client::add_results_command(app, invocation);
  client::add_status_command(app, invocation);
  client::add_cancel_command(app, invocation);
  client::add_retry_command(app, invocation);
  client::add_tokenize_command(app, invocation);
  client::add_score_command(app, invocation);
  client::add_errors_command(app, invocation);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? client::exit_all_done : client::exit_usage;
  }
  const Result<LogLevel> wanted = log_level_from_name(level);
  if (!wanted) {
    return client::report_error(wanted.error(), invocation.json);
  }
  log.level = *wanted;
  set_up_logging(log);
  return invocation.action();
}
