#pragma once
// A program's command line as plain values: its options, its commands and their texts. The help,
// the manual pages and the completion of shells are printed from it, so that they say the same.
// Thread safety: call command_tree() before threads start; the values are plain.
#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace millrace {

struct CommandOption {
  std::vector<std::string> names;  // "-h", "--help"; none: an argument, which has a place
  std::string value;               // "FILE", or the argument's name; empty: a flag
  std::string group;               // the heading of --help; empty: --help does not show it
  std::string text;                // with the default in brackets
  std::string limits;              // "[1 - 86400]" or "{fast,exact}"; empty: none are declared
  std::string at_length;           // what only --help-all says
  std::vector<std::string> choices;
  bool required = false;
  bool rare = false;     // only --help-all shows it
  bool repeats = false;  // of an argument: more than one may be given

  bool is_argument() const { return names.empty(); }
  bool takes_value() const { return !value.empty(); }
};

struct CommandTree {
  std::string name;
  std::string description;
  std::string footer;
  std::vector<CommandOption> options;  // arguments, too, in the order of their declaration
  std::vector<CommandTree> commands;

  // The first sentence of the description, without its full stop: what the list of commands shows.
  std::string summary() const;
  // What follows the name: "[files...] --model FILE [options]".
  std::string usage() const;
};

CommandTree command_tree(const CLI::App& app);

}  // namespace millrace
