#pragma once
// The command line of millrace-broker, and the configuration file that it may name. An option of
// the command line counts more than the file, and the file more than the default.
// Thread safety: call it before threads start, or from one thread.
#include <optional>

#include "broker/server/settings.hpp"

namespace millrace::broker {

struct CommandLine {
  Settings settings;
  bool print_config = false;
  std::optional<int> ended;  // help or the version was printed: the program ends with this code
};

// Errors: usage, and those of read_settings().
Result<CommandLine> read_command_line(int argc, const char* const* argv);

}  // namespace millrace::broker
