// `millrace help [COMMAND...]` and `millrace help examples`.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "client/commands/command.hpp"
#include "client/commands/examples.hpp"
#include "schemas/base/nearest_name.hpp"

namespace millrace::client {
namespace {

constexpr const char* examples_topic = "examples";

Error unknown_command(const CLI::App& app, const std::string& word) {
  std::vector<std::string> names = {examples_topic};
  for (const CLI::App* command : app.get_subcommands({})) names.push_back(command->get_name());
  return {Code::usage, "there is no command " + word,
          did_you_mean(word, names) + "see millrace --help"};
}

int run(const CLI::App& app, const std::vector<std::string>& words, bool json) {
  if (words == std::vector<std::string>{examples_topic}) {
    std::fputs(examples_text().c_str(), stdout);
    return exit_all_done;
  }
  const CLI::App* command = &app;
  std::string before;  // the words of the commands above
  for (const std::string& word : words) {
    const auto named = [&word](const CLI::App* one) { return one->get_name() == word; };
    const auto found = command->get_subcommands(named);
    if (found.empty()) return report_error(unknown_command(*command, word), json);
    before += (before.empty() ? "" : " ") + command->get_name();
    command = found.front();
  }
  // The formatter itself: App::help would give the help of the command that was typed, this one.
  const std::string name =
      before.empty() ? command->get_name() : before + " " + command->get_name();
  const auto formatter = command->get_formatter();
  std::fputs(formatter->make_help(command, name, CLI::AppFormatMode::Normal).c_str(), stdout);
  return exit_all_done;
}

}  // namespace

void add_help_command(CLI::App& app, Invocation& invocation) {
  auto* command = app.add_subcommand("help",
                                     "Print worked examples, or the help of a command.\n\n"
                                     "Examples:\n"
                                     "  millrace help examples\n"
                                     "  millrace help jobs ls");
  auto words = std::make_shared<std::vector<std::string>>();
  command->add_option("words", *words, "a command, or: examples");
  command->callback([&app, &invocation, words] {
    invocation.action = [&app, &invocation, words] { return run(app, *words, invocation.json); };
  });
}

}  // namespace millrace::client
