#pragma once
// The help of our programs. `--help` fits two screens of 24 lines and 80 columns, with one or two
// lines for each option and its default in brackets. `--help-all` explains each option at length.
//
//   CLI::App app("Runs a model.", "millrace-engine");
//   set_up_help(app);  // before subcommands are added: they inherit it
//   app.add_option("--kv", kv, "how keys and values are stored" + at_length("auto takes ..."))
//       ->type_name("POLICY")
//       ->capture_default_str();
//
// A command's description begins with a sentence on a line of its own, which the list of commands
// shows. Lines that begin with a space are printed as they are; the others are filled up to 80
// columns. Where a program computes a default, the description names it, in brackets too.
// Thread safety: call these before threads start.
#include <string>
#include <string_view>

namespace CLI {
class App;
}

namespace millrace {

void set_up_help(CLI::App& app);

// What at_length() puts before an explanation.
inline constexpr std::string_view length_mark = "\n\n";

// Marks an explanation that only --help-all prints after an option's description. Where there is no
// description before it, only --help-all names the option.
std::string at_length(const std::string& explanation);

}  // namespace millrace
