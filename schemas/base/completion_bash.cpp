// The completion of bash: a function that finds the command which is typed, then offers files or
// choices after an option that wants them, and the command's words elsewhere.
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "schemas/base/command_completion.hpp"

namespace millrace {
namespace {

std::string whole_path(const CommandTree& program, const CompletedCommand& command) {
  return command.path.empty() ? program.name : program.name + " " + command.path;
}

std::string offer(const CommandOption& option) {
  switch (value_kind(option)) {
    case ValueKind::files:
      return "-f";
    case ValueKind::folders:
      return "-d";
    case ValueKind::choices:
      return "-W '" + choice_words(option) + "'";
    default:
      return "-W ''";
  }
}

// A function that prints what the value of an option is, and fails for what takes none.
void write_values(std::ostream& out, const CommandTree& program,
                  const std::vector<CompletedCommand>& commands, const std::string& function) {
  out << function << "_value() {\n  case \"$1 $2\" in\n";
  for (const CompletedCommand& command : commands) {
    for (const CommandOption& option : command.options) {
      if (!option.takes_value()) continue;
      std::string patterns;
      for (const std::string& name : option.names) {
        patterns += "|'" + whole_path(program, command) + " " + name + "'";
      }
      out << "    " << patterns.substr(1) << ") echo \"" << offer(option) << "\" ;;\n";
    }
  }
  out << "    *) return 1 ;;\n  esac\n}\n";
}

// A function that prints the words that may follow a command.
void write_words(std::ostream& out, const CommandTree& program,
                 const std::vector<CompletedCommand>& commands, const std::string& function) {
  out << function << "_words() {\n  case $1 in\n";
  for (const CompletedCommand& command : commands) {
    std::string words;
    for (const std::string& name : command.commands) words += " " + name;
    for (const CommandOption& option : command.options) {
      for (const std::string& name : option.names) words += " " + name;
    }
    out << "    '" << whole_path(program, command) << "') echo '" << words.substr(1) << "' ;;\n";
  }
  out << "  esac\n}\n";
}

// A function that prints what the arguments of a command are.
void write_arguments(std::ostream& out, const CommandTree& program,
                     const std::vector<CompletedCommand>& commands, const std::string& function) {
  out << function << "_arguments() {\n  case $1 in\n";
  for (const CompletedCommand& command : commands) {
    if (command.arguments.empty()) continue;
    out << "    '" << whole_path(program, command) << "') echo \""
        << offer(command.arguments.front()) << "\" ;;\n";
  }
  out << "    *) echo \"-W ''\" ;;\n  esac\n}\n";
}

// A function that tells whether a path leads to a command.
void write_paths(std::ostream& out, const CommandTree& program,
                 const std::vector<CompletedCommand>& commands, const std::string& function) {
  out << function << "_leads_to_a_command() {\n  case $1 in\n    ''";
  for (const CompletedCommand& command : commands) {
    if (!command.path.empty()) out << "|'" << whole_path(program, command) << "'";
  }
  out << ") return 0 ;;\n    *) return 1 ;;\n  esac\n}\n";
}

constexpr std::string_view body = R"script(
FUNCTION() {
  local current=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]}
  local path=PROGRAM place word offer
  COMPREPLY=()
  for ((place = 1; place < COMP_CWORD; place++)); do
    word=${COMP_WORDS[place]}
    if FUNCTION_value "$path" "$word" >/dev/null; then
      ((place++))  # the option's value is no command
      [ "${COMP_WORDS[place]}" != = ] || ((place++))
    elif FUNCTION_leads_to_a_command "$path $word"; then
      path="$path $word"
    fi
  done
  # Bash takes --option=value apart at the sign.
  if [ "$current" = = ]; then
    current=
  elif [ "$before" = = ]; then
    before=${COMP_WORDS[COMP_CWORD-2]}
  fi
  if offer=$(FUNCTION_value "$path" "$before"); then
    :
  else
    offer=$(FUNCTION_arguments "$path")
    if [[ $current == -* || $offer == "-W ''" ]]; then
      offer="-W '$(FUNCTION_words "$path")'"
    fi
  fi
  [[ $offer == -W* ]] || compopt -o filenames
  mapfile -t COMPREPLY < <(eval "compgen $offer -- \"\$current\"")
}
complete -F FUNCTION PROGRAM
)script";

std::string replaced(std::string text, std::string_view what, const std::string& with) {
  for (auto at = text.find(what); at != text.npos; at = text.find(what, at + with.size())) {
    text.replace(at, what.size(), with);
  }
  return text;
}

}  // namespace

std::string bash_completion(const CommandTree& program) {
  const std::vector<CompletedCommand> commands = completed_commands(program);
  const std::string function = "_" + shell_identifier(program.name);
  std::ostringstream out;
  out << "# Completes the commands and options of " << program.name << " in bash.\n";
  write_values(out, program, commands, function);
  write_words(out, program, commands, function);
  write_arguments(out, program, commands, function);
  write_paths(out, program, commands, function);
  out << replaced(replaced(std::string(body), "FUNCTION", function), "PROGRAM", program.name);
  return out.str();
}

}  // namespace millrace
