#pragma once
// Keeps standard input in a file, for commands that read their input more than once.
// Errors: interrupted, io_error, disk_full, usage. Thread safety: one thread.
#include <functional>
#include <string>

#include "schemas/base/env.hpp"

namespace millrace::client {

// Reads standard input to its end into `path`, synced. If it holds nothing, or is a terminal, while
// `earlier` exists, copies that file instead: it is what an earlier call has kept (empty: none
// may have). `interrupted` tells that a signal asked to stop.
Status keep_standard_input(Env& env, const std::string& path, const std::string& earlier,
                           const std::function<bool()>& interrupted);

}  // namespace millrace::client
