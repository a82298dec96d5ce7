#include "broker/server/command_line.hpp"

#include <CLI/CLI.hpp>
#include <set>
#include <string>
#include <vector>

#include "schemas/base/command_help.hpp"
#include "schemas/base/command_units.hpp"
#include "schemas/base/command_usage.hpp"

namespace millrace::broker {
namespace {

constexpr const char* about =
    "The broker takes generation jobs, keeps them on disk, hands them to engines and publishes "
    "their results.";
constexpr const char* footer =
    "Examples:\n"
    "  millrace-broker --ledger /var/lib/millrace\n"
    "  millrace-broker --ledger /var/lib/millrace --listen tcp://127.0.0.1:6000 \\\n"
    "      --listen-engines ipc:///run/millrace/engines\n"
    "  millrace-broker --config /etc/millrace/broker.toml\n"
    "\n"
    "SIGTERM or SIGINT drains the broker: it takes no new jobs, and running jobs get "
    "--drain-wait-ms. A second signal stops it once all accepted jobs are on disk, or the log has "
    "told which ones a lost ledger did not take. Jobs that still run stay leased. SIGHUP reads the "
    "configuration file and the keys again.\n"
    "Exit codes: 0 drained, 1 an error, 2 usage, 3 refused to start.";

// The name of the configuration file; what is wrong with the rest is told later.
std::string file_of(int argc, const char* const* argv) {
  CLI::App app;
  app.set_help_flag();
  app.allow_extras();
  std::string file;
  app.add_option("--config", file);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError&) {
    return {};
  }
  return file;
}

void declare(CLI::App& app, const Setting& setting) {
  if (*setting.option == '\0') return;
  std::string help = setting.rare ? at_length(setting.about) : setting.about;
  if (*setting.at_length != '\0') help += at_length(setting.at_length);
  if (auto* const* flag = std::get_if<bool*>(&setting.value)) {
    app.add_flag(setting.option, **flag, help);
    return;
  }
  CLI::Option* const option = std::visit(
      [&](auto* value) { return app.add_option(setting.option, *value, help); }, setting.value);
  std::string fallback = setting_text(setting);
  std::erase(fallback, '"');
  option->type_name(setting.type)->default_str(fallback);
  if (setting.kind == SettingKind::duration) takes_duration(*option);
  if (setting.kind == SettingKind::size) takes_size(*option);
  if (setting.kind == SettingKind::number) option->check(CLI::Range(setting.least, setting.most));
}

// The tenants of the command line replace those of the same name in the file.
Status take_tenants(const std::vector<std::string>& texts, TenantTable& table) {
  std::set<std::string> given;
  for (const std::string& text : texts) {
    MILLRACE_ASSIGN(auto one, parse_tenant_limits(text));
    if (!given.insert(one.first).second) {
      return fail(Code::usage, "--tenant: " + one.first + " is given twice",
                  "give all limits of a tenant at once, with commas between them");
    }
    table[one.first] = one.second;
  }
  return {};
}

}  // namespace

Result<CommandLine> read_command_line(int argc, const char* const* argv) {
  CommandLine line;
  if (const std::string file = file_of(argc, argv); !file.empty()) {
    MILLRACE_TRY(read_settings(file, line.settings));
  }
  CLI::App app{about, "millrace-broker"};
  set_up_help(app);
  app.set_version_flag("--version", "millrace-broker " MILLRACE_VERSION, "print the version");
  app.footer(footer);
  std::string file;
  app.add_option("--config", file,
                 "configuration file in TOML" +
                     at_length("Options of the command line count more than the file. It takes "
                               "more settings than there are options: --print-config prints all."))
      ->type_name("FILE");
  app.add_flag("--print-config", line.print_config,
               "print the settings as a configuration file, and end");
  std::vector<std::string> tenants;
  app.add_option("--tenant", tenants,
                 "limits of a tenant, such as acme:weight=3,queued=1000" +
                     at_length("Engines that serve several tenants share their work between those "
                               "whose jobs wait, in tokens and in proportion to the weights (1 "
                               "where none is given). At most `leases` of the tenant's jobs are "
                               "with engines at once, and at most `queued` wait. Give the option "
                               "once for each tenant; the name * is every tenant that has none."))
      ->type_name("LIMITS")
      ->allow_extra_args(false);
  for (const Setting& setting : settings_of(line.settings)) declare(app, setting);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() != 0) return fail(usage_error(app, error));
    line.ended = app.exit(error);  // help and version
    return line;
  }
  MILLRACE_TRY(take_tenants(tenants, line.settings.tenants));
  MILLRACE_TRY(check_settings(line.settings));
  return line;
}

}  // namespace millrace::broker
