// The completion of zsh: a function for each command, which hands the rest of the line on to the
// function of the command that follows.
#include <sstream>
#include <string>
#include <vector>

#include "schemas/base/command_completion.hpp"

namespace millrace {
namespace {

// A word in single quotes.
std::string quoted(const std::string& text) {
  std::string out = "'";
  for (const char byte : text) out += byte == '\'' ? "'\\''" : std::string(1, byte);
  return out + "'";
}

// Text without what has a meaning in a list of _arguments.
std::string escaped(const std::string& text) {
  std::string out;
  for (const char byte : text) {
    if (byte == '\\' || byte == '[' || byte == ']' || byte == ':') out += '\\';
    out += byte;
  }
  return out;
}

std::string function_of(const CommandTree& program, const std::string& path) {
  return "_" + shell_identifier(program.name + (path.empty() ? "" : "__" + path));
}

std::string action(const CommandOption& option) {
  switch (value_kind(option)) {
    case ValueKind::files:
      return "_files";
    case ValueKind::folders:
      return "_files -/";
    case ValueKind::choices:
      return "(" + choice_words(option) + ")";
    default:
      return " ";
  }
}

void write_option(std::ostream& out, const CommandOption& option) {
  for (const std::string& name : option.names) {
    std::string word = (option.repeats ? "*" : "") + name + "[" + escaped(option.text) + "]";
    if (option.takes_value()) word += ":" + option.value + ":" + action(option);
    out << " \\\n    " << quoted(word);
  }
}

void write_function(std::ostream& out, const CommandTree& program,
                    const std::vector<CompletedCommand>& commands,
                    const CompletedCommand& command) {
  const std::string function = function_of(program, command.path);
  out << function << "() {\n";
  if (!command.commands.empty()) {
    out << "  local -a commands line\n  local state\n  commands=(\n";
    for (const CompletedCommand& other : commands) {
      for (const std::string& name : command.commands) {
        const std::string path = command.path.empty() ? name : command.path + " " + name;
        if (other.path == path) out << "    " << quoted(name + ":" + other.summary) << "\n";
      }
    }
    out << "  )\n";
  }
  out << "  _arguments -s" << (command.commands.empty() ? "" : " -C");
  for (const CommandOption& option : command.options) write_option(out, option);
  for (const CommandOption& argument : command.arguments) {
    // A message about an argument would keep zsh from completing an option in its place.
    if (value_kind(argument) == ValueKind::text) continue;
    out << " \\\n    "
        << quoted((argument.repeats ? "*:" : ":") + argument.value + ":" + action(argument));
  }
  if (!command.commands.empty()) {
    out << " \\\n    '1:command:->command' \\\n    '*::argument:->argument'\n"
        << "  case $state in\n    command) _describe command commands ;;\n    argument)\n"
        << "      case $line[1] in\n";
    for (const std::string& name : command.commands) {
      const std::string path = command.path.empty() ? name : command.path + " " + name;
      out << "        " << name << ") " << function_of(program, path) << " ;;\n";
    }
    out << "      esac ;;\n  esac";
  }
  out << "\n}\n";
}

}  // namespace

std::string zsh_completion(const CommandTree& program) {
  const std::vector<CompletedCommand> commands = completed_commands(program);
  const std::string function = function_of(program, "");
  std::ostringstream out;
  out << "#compdef " << program.name << "\n"
      << "# Completes the commands and options of " << program.name << " in zsh.\n";
  for (const CompletedCommand& command : commands) {
    write_function(out, program, commands, command);
  }
  // The shell loads the file as the body of the function, or a person reads it with `source`.
  out << "if [ \"$funcstack[1]\" = " << function << " ]; then\n  " << function << " \"$@\"\nelse\n"
      << "  compdef " << function << " " << program.name << "\nfi\n";
  return out.str();
}

}  // namespace millrace
