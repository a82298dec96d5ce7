#pragma once
// `millrace top`. Thread safety: the main thread.
#include "client/commands/command.hpp"

namespace millrace::client {

void add_top_command(CLI::App& app, Invocation& invocation);

}  // namespace millrace::client
