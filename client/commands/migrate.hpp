#pragma once
// `millrace migrate`. Thread safety: the main thread.
#include "client/commands/command.hpp"

namespace millrace::client {

void add_migrate_command(CLI::App& app, Invocation& invocation);

}  // namespace millrace::client
