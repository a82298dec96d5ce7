#pragma once
// The help of our programs. `--help` fits two screens of 24 lines and 80 columns: one or two lines
// an option, with its default in brackets. `--help-all` explains each option at length.
//
//   CLI::App app("Runs a model.", "millrace-engine");
//   set_up_help(app);  // before subcommands are added: they inherit it
//   app.add_option("--kv", kv, "how keys and values are stored" + at_length("auto takes ..."))
//       ->type_name("POLICY")
//       ->capture_default_str();
//
// A command's description begins with a sentence on a line of its own, which stands in the list of
// commands; lines that begin with a space are printed
// as they are, the others are filled up to 80 columns. A default that a program finds out stands in
// the description, in brackets too. Thread safety: before threads are started.
#include <string>

namespace CLI {
class App;
}

namespace millrace {

void set_up_help(CLI::App& app);

// What follows an option's description in --help-all alone.
std::string at_length(const std::string& explanation);

}  // namespace millrace
