#pragma once
// A session for a command that draws the whole terminal, over which no report may be printed, or
// that tells by itself whether the broker is there. It says nothing when the broker is away;
// Session::ready() tells. Errors: those of open_session. Thread safety: the main thread.
#include <memory>

#include "client/commands/command.hpp"

namespace millrace::client {

Result<std::unique_ptr<Session>> open_quiet_session(const BrokerFlags& flags, const Clock& clock);

}  // namespace millrace::client
