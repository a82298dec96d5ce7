// `millrace completion SHELL`: prints the script that makes a shell complete our command lines.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>
#include <string>

#include "client/commands/command.hpp"
#include "schemas/base/command_completion.hpp"

namespace millrace::client {

void add_completion_command(CLI::App& app, Invocation& invocation) {
  auto* command = app.add_subcommand(
      "completion",
      "Print the completion of a shell.\n\n"
      "Packages install it. Otherwise have your shell read it at its start: in ~/.bashrc, in "
      "~/.zshrc after compinit, or for fish as a file.\n\n"
      "Examples:\n"
      "  eval \"$(millrace completion bash)\"\n"
      "  source <(millrace completion zsh)\n"
      "  millrace completion fish > ~/.config/fish/completions/millrace.fish");
  auto shell = std::make_shared<std::string>();
  command->add_option("shell", *shell, "bash, zsh or fish")->required();
  command->callback([&app, &invocation, shell] {
    invocation.action = [&app, &invocation, shell] {
      const auto script = completion_script(command_tree(app), *shell);
      if (!script) return report_error(script.error(), invocation.json);
      std::fputs(script->c_str(), stdout);
      return exit_all_done;
    };
  });
}

}  // namespace millrace::client
