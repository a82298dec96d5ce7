#include "schemas/base/command_completion.hpp"

#include <algorithm>
#include <cctype>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

namespace millrace {
namespace {

bool is_one_of(std::string_view word, std::initializer_list<std::string_view> words) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

void add_command(std::vector<CompletedCommand>& out, const CommandTree& tree,
                 const std::string& path, const std::vector<CommandOption>& of_program) {
  CompletedCommand one;
  one.path = path;
  one.summary = tree.summary();
  for (const CommandOption& option : tree.options) {
    if (option.group.empty()) continue;
    (option.is_argument() ? one.arguments : one.options).push_back(option);
  }
  one.options.insert(one.options.end(), of_program.begin(), of_program.end());
  for (const CommandTree& command : tree.commands) one.commands.push_back(command.name);
  out.push_back(std::move(one));
  for (const CommandTree& command : tree.commands) {
    add_command(out, command, path.empty() ? command.name : path + " " + command.name, of_program);
  }
}

}  // namespace

ValueKind value_kind(const CommandOption& option) {
  if (!option.takes_value()) return ValueKind::nothing;
  if (!option.choices.empty()) return ValueKind::choices;
  if (option.is_argument()) {
    if (is_one_of(option.value, {"file", "files", "input", "model"})) return ValueKind::files;
    if (is_one_of(option.value, {"folder", "backup"})) return ValueKind::folders;
    return ValueKind::text;
  }
  if (option.value == "FILE") return ValueKind::files;
  return is_one_of(option.value, {"DIR", "PLACE"}) ? ValueKind::folders : ValueKind::text;
}

std::string choice_words(const CommandOption& option) {
  std::string words;
  for (const std::string& choice : option.choices) words += (words.empty() ? "" : " ") + choice;
  return words;
}

std::string shell_identifier(std::string name) {
  for (char& byte : name) {
    if (std::isalnum(static_cast<unsigned char>(byte)) == 0) byte = '_';
  }
  return name;
}

std::vector<CompletedCommand> completed_commands(const CommandTree& program) {
  std::vector<CompletedCommand> out;
  add_command(out, program, "", {});
  std::vector<CommandOption> of_program;
  for (const CommandOption& option : out.front().options) {
    const std::string& name = option.names.back();
    if (!is_one_of(name, {"--help", "--help-all", "--version"})) of_program.push_back(option);
  }
  out.clear();
  add_command(out, program, "", of_program);
  out.front().options.resize(out.front().options.size() - of_program.size());
  return out;
}

Result<std::string> completion_script(const CommandTree& program, std::string_view shell) {
  if (shell == "bash") return bash_completion(program);
  if (shell == "zsh") return zsh_completion(program);
  if (shell == "fish") return fish_completion(program);
  return fail(Code::usage, "there is no completion for the shell " + std::string(shell),
              "name bash, zsh or fish");
}

}  // namespace millrace
