#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "client/commands/command.hpp"
#include "schemas/base/log.hpp"

namespace {

constexpr const char* about =
    "Generated text in bulk, and no job lost.\n\n"
    "Examples:\n"
    "  millrace run --model M.gguf --input jobs.jsonl --output results.jsonl\n"
    "  millrace submit jobs.jsonl --wait\n"
    "  millrace results results --follow\n"
    "  echo 'Hello world' | millrace tokenize --model M.gguf";

constexpr const char* footer =
    "With every command: --json (one JSON object a line), --log-level, --log-json.\n"
    "Exit codes: 0 all done, 1 some jobs failed, 2 usage, 3 refused, 4 broker unreachable,\n"
    "130 interrupted (and how to go on is said).";

// The list of commands has one line for each; its own --help has the rest.
class Formatter final : public CLI::Formatter {
  std::string make_subcommand(const CLI::App* command) const override {
    const std::string description = command->get_description();
    std::ostringstream out;
    CLI::detail::format_help(out, command->get_name(),
                             description.substr(0, description.find('\n')), get_column_width());
    return out.str();
  }
};

// Asked of the words themselves: where they cannot be parsed, no flag is set.
bool wants_json(int argc, char** argv) {
  return std::any_of(argv + 1, argv + argc,
                     [](const char* word) { return std::string_view(word) == "--json"; });
}

millrace::Error usage_error(const CLI::App& app, const CLI::ParseError& error) {
  std::string command = "millrace";
  for (const CLI::App* chosen : app.get_subcommands()) {
    command += " " + chosen->get_name();
  }
  const std::vector<std::string> unknown = app.remaining();
  std::string what = error.what();
  if (command == "millrace" && !unknown.empty() && !unknown.front().starts_with('-')) {
    what = "there is no command " + unknown.front();
  }
  return {millrace::Code::usage, std::move(what), command + " --help tells more"};
}

}  // namespace

int main(int argc, char** argv) {
  using namespace millrace;
  CLI::App app(about, "millrace");
  client::Invocation invocation{.arguments = argv, .json = false, .action = {}};
  LogOptions log;
  std::string level = "error";
  app.set_version_flag("--version", std::string("millrace ") + MILLRACE_VERSION);
  app.add_option("--log-level", level, "trace, debug, info, warn, error or off")
      ->capture_default_str();
  app.add_flag("--log-json", log.json, "one JSON object a log line");
  app.add_flag("--json", invocation.json, "machine-readable output, one JSON object a line");
  app.formatter(std::make_shared<Formatter>());
  app.footer(footer);
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
  client::add_fidelity_command(app, invocation);
  client::add_calibrate_command(app, invocation);
  client::add_errors_command(app, invocation);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) {
      return app.exit(error);  // help and version
    }
    return client::report_error(usage_error(app, error), wants_json(argc, argv));
  }
  const Result<LogLevel> wanted = log_level_from_name(level);
  if (!wanted) {
    return client::report_error(wanted.error(), invocation.json);
  }
  log.level = *wanted;
  set_up_logging(log);
  return invocation.action();
}
