#pragma once
// What the commands of `millrace` share. Each command has a file of its own, adds itself to the
// command line, and leaves behind the action to run. Thread safety: the main thread.
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "client/link/event_loop.hpp"
#include "schemas/base/env.hpp"
#include "schemas/base/error.hpp"

namespace CLI {
class App;
}

namespace millrace::client {

// The most that an option of a large number takes. CLI11 makes 2^64 - 1 of -1, which is more.
inline constexpr std::uint64_t most_number = std::numeric_limits<std::int64_t>::max();

// Exit codes. The scripts of users rely on them.
inline constexpr int exit_all_done = 0, exit_some_failed = 1, exit_usage = 2, exit_refused = 3,
                     exit_unreachable = 4, exit_interrupted = 130;
int exit_code(const Error& error);

struct Invocation {
  char** arguments = nullptr;  // those of main()
  bool json = false;
  std::function<int()> action;  // runs the command that was typed; returns the exit code
};

void add_run_command(CLI::App& app, Invocation& invocation);
void add_serve_command(CLI::App& app, Invocation& invocation);
void add_submit_command(CLI::App& app, Invocation& invocation);
void add_results_command(CLI::App& app, Invocation& invocation);
void add_status_command(CLI::App& app, Invocation& invocation);
void add_stats_command(CLI::App& app, Invocation& invocation);
void add_bench_command(CLI::App& app, Invocation& invocation);
void add_cancel_command(CLI::App& app, Invocation& invocation);
void add_retry_command(CLI::App& app, Invocation& invocation);
void add_pause_commands(CLI::App& app, Invocation& invocation);  // also resume
void add_batches_command(CLI::App& app, Invocation& invocation);
void add_jobs_command(CLI::App& app, Invocation& invocation);
void add_dlq_command(CLI::App& app, Invocation& invocation);
void add_drop_verb(CLI::App& group, Invocation& invocation);  // of `jobs` and `dlq`
void add_streams_command(CLI::App& app, Invocation& invocation);
void add_cursors_command(CLI::App& app, Invocation& invocation);
void add_context_command(CLI::App& app, Invocation& invocation);
void add_check_command(CLI::App& app, Invocation& invocation);
void add_ask_command(CLI::App& app, Invocation& invocation);
void add_tokenize_command(CLI::App& app, Invocation& invocation);
void add_score_command(CLI::App& app, Invocation& invocation);
void add_fidelity_command(CLI::App& app, Invocation& invocation);
void add_calibrate_command(CLI::App& app, Invocation& invocation);
void add_convert_command(CLI::App& app, Invocation& invocation);
void add_errors_command(CLI::App& app, Invocation& invocation);
void add_backup_commands(CLI::App& app, Invocation& invocation);  // also verify, restore, drain
void add_doctor_command(CLI::App& app, Invocation& invocation);
void add_keys_command(CLI::App& app, Invocation& invocation);
void add_completion_command(CLI::App& app, Invocation& invocation);
void add_help_command(CLI::App& app, Invocation& invocation);

// ---- terminal
// Makes a message safe for a terminal: control characters that came from others (escape sequences,
// NUL) become visible as \xNN, of a name also newlines.
enum class Newlines : std::uint8_t { stay, escaped };
std::string printable(const std::string& text, Newlines newlines = Newlines::stay);
std::string printable_name(const std::string& name);
// Writes to standard error; with json one object {"event": "error", "code", "message", "hint"}.
void print_error(const Error& error, bool json);
// The same, followed by `how`, which says how to go on and may be empty.
void print_error_and_resume(const Error& error, const std::string& how, bool json);
// Writes a notice, which is no error, to standard error; with json an object {"event", "message"}.
void print_notice(const char* event, const std::string& message, bool json);
// Prints the error and returns its exit code.
int report_error(const Error& error, bool json);

// ---- files
// Refuses an empty name, and "-": a command that goes on after a stop cannot do so with standard
// input or output. Errors: usage.
Status check_named(const std::string& path, const char* option);
// Refuses to write a file that is also read. `option` names the file to be written. Errors: usage.
Status check_apart(const std::string& path, const char* option,
                   const std::vector<std::string>& inputs);
// Checks an output before long work begins: it can be written, it is none of the files that are
// read, and a file that exists already is of the same kind, which begins with `magic`. Leaves the
// file as it is. Errors: usage, conflict, io_error and the like, naming `option`.
Status check_output(Env& env, const std::string& path, const char* option, std::string_view magic,
                    const std::vector<std::string>& inputs);

// ---- signals
// Makes the process remember SIGINT, SIGTERM and SIGHUP from now on. A second signal ends the
// process at once and prints `how` to go on. Signals that were ignored at the start (nohup) stay
// ignored.
void remember_interrupts(const std::string& how, bool json);
bool interrupted();

// ---- brokers
struct BrokerFlags {
  std::string endpoint, context;  // as they were given, at most one of them
  std::string key;                // a key file; empty: the context's, or MILLRACE_KEY
  std::uint32_t timeout_s = 10;
};
// Adds --broker, --context, --key and --timeout.
void add_broker_flags(CLI::App& app, BrokerFlags& flags);
// The endpoint that the flags, the environment or the context in use name, for messages.
std::string endpoint_of(const BrokerFlags& flags);
// The flags as another command of the same broker has to be given them; " --broker ADDR" or "".
std::string repeated(const BrokerFlags& flags);
// Opens a session that reports on standard error when the broker is away and back. `before_report`
// makes room for that on the terminal; it may be empty.
Result<std::unique_ptr<Session>> open_session(const BrokerFlags& flags, const Clock& clock,
                                              bool json, std::function<void()> before_report = {});
// Options of a loop that ends after --timeout and on a remembered signal.
EventLoopOptions loop_options(const BrokerFlags& flags);
template <class Answer>
Result<Answer> ask_broker(const BrokerFlags& flags, Message message, bool json) {
  const SystemClock clock;
  MILLRACE_ASSIGN(auto session, open_session(flags, clock, json));
  return EventLoop(*session, clock, loop_options(flags)).request_as<Answer>(std::move(message));
}

}  // namespace millrace::client
