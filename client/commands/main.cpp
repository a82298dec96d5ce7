#include <poll.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <string>
#include <string_view>
#include <vector>

#include "client/commands/command.hpp"
#include "client/commands/migrate.hpp"
#include "client/commands/top.hpp"
#include "schemas/base/command_help.hpp"
#include "schemas/base/command_usage.hpp"
#include "schemas/base/log.hpp"
#include "schemas/job_table.hpp"

namespace {

constexpr const char* about =
    "Millrace generates text in bulk and never loses a job.\n\n"
    "Examples:\n"
    "  millrace run --model M.gguf --input jobs.jsonl --output results.jsonl\n"
    "  millrace ask --model M.gguf 'Why is the sea salty?'\n"
    "  millrace serve --model M.gguf\n"
    "  millrace submit jobs.jsonl --wait\n"
    "  millrace top\n"
    "  millrace help examples";

constexpr const char* footer =
    "Every command takes --json (one JSON object a line), --log-level and --log-json.\n"
    "Exit codes: 0 all done, 1 some jobs failed, 2 usage, 3 refused, 4 broker unreachable, 130 "
    "interrupted.";

// Searches the words themselves, because no flag is set when the command line cannot be parsed.
bool wants_json(int argc, char** argv) {
  return std::any_of(argv + 1, argv + argc,
                     [](const char* word) { return std::string_view(word) == "--json"; });
}

// Other programs take what a job asks for as options of theirs.
std::string job_field(const std::string& option) {
  std::string name = option;
  std::ranges::replace(name, '-', '_');
  const millrace::JobField* field = millrace::find_job_field(name);
  if (field == nullptr || !field->supported) return "";
  return name + " is a field of a job: put \"" + name + "\" into the lines of the input";
}

// A pipe whose reader has enough and left: that is no failure of the command.
bool reader_left() {
  pollfd pipe{.fd = STDOUT_FILENO, .events = POLLOUT, .revents = 0};
  return ::poll(&pipe, 1, 0) == 1 && (pipe.revents & POLLERR) != 0;
}

// What a buffer still holds may not fit, and no write before that was looked at everywhere.
int finish(int code, bool json) {
  using namespace millrace;
  const bool written = std::fflush(stdout) == 0 && std::ferror(stdout) == 0;
  if (written || reader_left() ||
      (code != client::exit_all_done && code != client::exit_some_failed)) {
    return code;
  }
  return client::report_error({Code::io_error,
                               "cannot write to standard output",
                               "check the file or the pipe that it is redirected to",
                               {}},
                              json);
}

}  // namespace

int main(int argc, char** argv) {
  using namespace millrace;
  CLI::App app(about, "millrace");
  client::Invocation invocation{.arguments = argv, .json = false, .action = {}};
  LogOptions log;
  std::string level = "error";
  set_up_help(app);
  app.set_version_flag("--version", std::string("millrace ") + MILLRACE_VERSION,
                       "print the version");
  app.add_option("--log-level", level, "trace, debug, info, warn, error or off")
      ->type_name("LEVEL")
      ->capture_default_str();
  app.add_flag("--log-json", log.json, "write each line of the log as a JSON object");
  app.add_flag("--json", invocation.json, "machine-readable output, one JSON object a line");
  app.footer(footer);
  app.require_subcommand(1);
  app.fallthrough();
  client::add_run_command(app, invocation);
  client::add_check_command(app, invocation);
  client::add_ask_command(app, invocation);
  client::add_serve_command(app, invocation);
  client::add_submit_command(app, invocation);
  client::add_results_command(app, invocation);
  client::add_status_command(app, invocation);
  client::add_top_command(app, invocation);
  client::add_stats_command(app, invocation);
  client::add_bench_command(app, invocation);
  client::add_cancel_command(app, invocation);
  client::add_retry_command(app, invocation);
  client::add_pause_commands(app, invocation);
  client::add_jobs_command(app, invocation);
  client::add_dlq_command(app, invocation);
  client::add_batches_command(app, invocation);
  client::add_streams_command(app, invocation);
  client::add_cursors_command(app, invocation);
  client::add_context_command(app, invocation);
  client::add_tokenize_command(app, invocation);
  client::add_score_command(app, invocation);
  client::add_fidelity_command(app, invocation);
  client::add_calibrate_command(app, invocation);
  client::add_convert_command(app, invocation);
  client::add_errors_command(app, invocation);
  client::add_backup_commands(app, invocation);
  client::add_migrate_command(app, invocation);
  client::add_doctor_command(app, invocation);
  client::add_keys_command(app, invocation);
  client::add_completion_command(app, invocation);
  client::add_help_command(app, invocation);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) {
      return finish(app.exit(error), wants_json(argc, argv));  // help and version
    }
    return client::report_error(usage_error(app, error, job_field), wants_json(argc, argv));
  }
  const Result<LogLevel> wanted = log_level_from_name(level);
  if (!wanted) {
    return client::report_error(wanted.error(), invocation.json);
  }
  log.level = *wanted;
  set_up_logging(log);
  return finish(invocation.action(), invocation.json);
}
