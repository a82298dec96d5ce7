#pragma once
// Scripts that make a shell complete a program's commands, options and files, made from the texts
// of --help. Thread safety: pure functions.
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "schemas/base/command_tree.hpp"
#include "schemas/base/error.hpp"

namespace millrace {

// The script for "bash", "zsh" or "fish". Errors: usage, for another shell.
Result<std::string> completion_script(const CommandTree& program, std::string_view shell);

// ---- what the scripts of all shells are made from
enum class ValueKind : std::uint8_t { nothing, text, files, folders, choices };
ValueKind value_kind(const CommandOption& option);
std::string choice_words(const CommandOption& option);  // "fast exact"

// A name as a part of a function's name: letters, digits and underscores.
std::string shell_identifier(std::string name);

// A command with the words that lead to it, such as "jobs ls", and all options that it takes: its
// own, and those of the program that every command takes. Without what --help does not show.
struct CompletedCommand {
  std::string path;  // empty: the program
  std::string summary;
  std::vector<CommandOption> options;
  std::vector<CommandOption> arguments;
  std::vector<std::string> commands;  // the names of its own commands
};
// The program, and then its commands; a command comes before its own commands.
std::vector<CompletedCommand> completed_commands(const CommandTree& program);

std::string bash_completion(const CommandTree& program);
std::string zsh_completion(const CommandTree& program);
std::string fish_completion(const CommandTree& program);

}  // namespace millrace
