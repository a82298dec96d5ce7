#pragma once
// The program with --devices: it runs no engine itself, but keeps an engine process on each device
// alive. An engine that dies, or whose device is lost, is started again after a growing pause; the
// end of one does not end the others. On SIGTERM and SIGINT all drain; a second signal makes them
// leave at once. Exit codes: as serve(); 1 also if some engines were given up while others ran.
// Thread safety: call this from main() only.
#include <string>
#include <vector>

#include "engine/worker/options.hpp"
#include "engine/worker/worker_program.hpp"

namespace millrace::worker {

// Runs until all engines have left. `more` are arguments of each engine besides those of the flags.
int serve_devices(const EngineFlags& engine, const ProgramFlags& flags, const char* program,
                  const std::vector<std::string>& more = {});

}  // namespace millrace::worker
