#pragma once
// The program around an executor: options, signals, exit code. millrace-engine and its stand-ins
// for tests and benchmarks share it. Exit codes: 0 drained, 1 the engine failed while running,
// 2 usage, 3 refused (model, device, or by the broker), 130 interrupted from the keyboard.
// Thread safety: call these functions from main() only.
#include <cstdint>
#include <string>
#include <vector>

#include "engine/worker/executor.hpp"
#include "engine/worker/options.hpp"
#include "schemas/base/net/local_endpoint.hpp"

namespace millrace::worker {

constexpr int device_lost_status = 1;  // the exit code of an engine that failed while running

struct ProgramFlags {
  std::string broker = net::local_endpoint(net::engines_socket);
  std::string key;      // a key file; empty: none
  std::string name;     // empty: host name and process id
  std::string metrics;  // address that shows metrics; empty: none
  std::string traces;   // URL that takes spans; empty: that of the environment, if there is one
  std::uint32_t drain_timeout_s = 30;
  bool die_with_parent = false;
  bool tell_joined = false;  // write a line for the supervisor each time that a broker takes it
  LogFlags log;
};
void add_program_options(CLI::App& app, ProgramFlags& flags);
// The flags as arguments for a child process, without --name, --metrics and what ties it to this
// one.
std::vector<std::string> program_arguments(const ProgramFlags& flags);
std::string host_name();

// Sets up the log and --die-with-parent, and prepares the broker's endpoint. Call it before
// anything slow.
Status begin_program(const ProgramFlags& flags);
// Connects the executor to the broker, and runs until SIGTERM, SIGINT or the broker tells it to
// leave. Returns the exit code.
int serve(const ProgramFlags& flags, const char* software, Executor& executor);
// Prints the error to standard error. Returns the exit code of an error at the start.
int report(const char* program, const Error& error);

}  // namespace millrace::worker
