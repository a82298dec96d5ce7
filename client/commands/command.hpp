#pragma once
// What the commands of `millrace` share. Each command lives in a file of its own, adds itself to
// the command line, and leaves behind what is to be done. Thread safety: the main thread.
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "client/link/session.hpp"
#include "schemas/base/env.hpp"
#include "schemas/base/error.hpp"
#include "schemas/base/net/local_endpoint.hpp"

namespace CLI {
class App;
}

namespace millrace::client {

// DESIGN section 9
inline constexpr int exit_all_done = 0, exit_some_failed = 1, exit_usage = 2, exit_refused = 3,
                     exit_unreachable = 4, exit_interrupted = 130;
int exit_code(const Error& error);

struct Invocation {
  char** arguments = nullptr;  // main's
  bool json = false;
  std::function<int()> action;  // of the command that was typed; returns the exit code
};

void add_run_command(CLI::App& app, Invocation& invocation);
void add_submit_command(CLI::App& app, Invocation& invocation);
void add_results_command(CLI::App& app, Invocation& invocation);
void add_status_command(CLI::App& app, Invocation& invocation);
void add_cancel_command(CLI::App& app, Invocation& invocation);
void add_retry_command(CLI::App& app, Invocation& invocation);
void add_tokenize_command(CLI::App& app, Invocation& invocation);
void add_score_command(CLI::App& app, Invocation& invocation);
void add_fidelity_command(CLI::App& app, Invocation& invocation);
void add_calibrate_command(CLI::App& app, Invocation& invocation);
void add_errors_command(CLI::App& app, Invocation& invocation);

// ---- terminal
// For a terminal: what input may have brought into a message (escape sequences, NUL) is made
// visible as \xNN; newlines stay.
std::string printable(const std::string& text);
// To standard error; with json one object {"event": "error", "code", "message", "hint"}.
void print_error(const Error& error, bool json);
// `how`: to go on, where one can.
void print_error_and_resume(const Error& error, const std::string& how, bool json);
// To standard error, what is worth knowing and stops nothing: with json an object {"event",
// "message"}.
void print_notice(const char* event, const std::string& message, bool json);
// The error printed, and the exit code that says it.
int report_error(const Error& error, bool json);

// ---- files
// That a name is one: standard input and output are not files that can be gone on with. Errors:
// usage.
Status check_named(const std::string& path, const char* option);
// That what `option` is to write is none of the files that are read. Errors: usage.
Status check_apart(const std::string& path, const char* option,
                   const std::vector<std::string>& inputs);
// Before long work: that the file can be written, is apart from what is read, and that only one of
// the same kind, which begins with `magic`, is written over. What is there stays. Errors: usage;
// conflict; io_error and the like, naming `option`.
Status check_output(Env& env, const std::string& path, const char* option, std::string_view magic,
                    const std::vector<std::string>& inputs);

// ---- signals
// From now on SIGINT, SIGTERM and SIGHUP are remembered; a second one ends the process at once, and
// says `how` to go on. Those that were ignored at the start (nohup) stay ignored.
void remember_interrupts(const std::string& how, bool json);
bool interrupted();

// ---- brokers
struct BrokerFlags {
  std::string endpoint = net::local_endpoint(net::clients_socket);
  std::uint32_t timeout_s = 10;
};
// --broker (or MILLRACE_BROKER) and, for commands that ask once, --timeout.
void add_broker_flags(CLI::App& app, BrokerFlags& flags, bool with_timeout);
// Says on standard error when the broker is away and back.
Result<std::unique_ptr<Session>> open_session(const BrokerFlags& flags, const Clock& clock,
                                              bool json);
template <class Answer>
Result<Answer> ask_broker(const BrokerFlags& flags, Message message, bool json) {
  const SystemClock clock;
  MILLRACE_ASSIGN(auto session, open_session(flags, clock, json));
  return session->request_as<Answer>(std::move(message), flags.timeout_s * 1000);
}

}  // namespace millrace::client
