// The completion of fish: a line for each option and command, on the condition that its command is
// the one that is typed.
#include <sstream>
#include <string>
#include <vector>

#include "schemas/base/command_completion.hpp"

namespace millrace {
namespace {

std::string quoted(const std::string& text) {
  std::string out = "'";
  for (const char byte : text) {
    if (byte == '\'' || byte == '\\') out += '\\';
    out += byte;
  }
  return out + "'";
}

// What follows the name of an option that takes a value.
std::string value_words(const CommandOption& option) {
  switch (value_kind(option)) {
    case ValueKind::nothing:
      return "";
    case ValueKind::files:
      return " -r -F";
    case ValueKind::folders:
      return " -x -a '(__fish_complete_directories)'";
    case ValueKind::choices:
      return " -x -a " + quoted(choice_words(option));
    case ValueKind::text:
      break;
  }
  return " -x";
}

// The functions that find the command which is typed.
void write_functions(std::ostream& out, const std::vector<CompletedCommand>& commands,
                     const std::string& function) {
  out << "function " << function << "_path\n    set -l path ''\n"
      << "    for word in (commandline -opc)[2..-1]\n"
      << "        switch \"$path $word\"\n            case";
  for (const CompletedCommand& command : commands) out << " " << quoted(" " + command.path);
  out << "\n                set path \"$path $word\"\n        end\n    end\n"
      << "    string trim -- $path\nend\n"
      << "function " << function << "_at\n"
      << "    test \"$(" << function << "_path)\" = \"$argv[1]\"\nend\n";
}

}  // namespace

std::string fish_completion(const CommandTree& program) {
  const std::vector<CompletedCommand> commands = completed_commands(program);
  const std::string function = "__" + shell_identifier(program.name);
  std::ostringstream out;
  out << "# Completes the commands and options of " << program.name << " in fish.\n";
  write_functions(out, commands, function);
  out << "complete -c " << program.name << " -f\n";
  for (const CompletedCommand& command : commands) {
    const std::string at =
        "complete -c " + program.name + " -n " + quoted(function + "_at " + quoted(command.path));
    for (const std::string& name : command.commands) {
      const std::string path = command.path.empty() ? name : command.path + " " + name;
      for (const CompletedCommand& other : commands) {
        if (other.path == path) out << at << " -a " << name << " -d " << quoted(other.summary);
      }
      out << "\n";
    }
    for (const CommandOption& option : command.options) {
      out << at;
      for (const std::string& name : option.names) {
        out << (name.starts_with("--") ? " -l " + name.substr(2) : " -s " + name.substr(1));
      }
      out << value_words(option) << " -d " << quoted(option.text) << "\n";
    }
    for (const CommandOption& argument : command.arguments) {
      const ValueKind kind = value_kind(argument);
      if (kind == ValueKind::files) out << at << " -F\n";
      if (kind == ValueKind::folders) out << at << " -a '(__fish_complete_directories)'\n";
    }
  }
  return out.str();
}

}  // namespace millrace
