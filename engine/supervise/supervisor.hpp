#pragma once
// Keeps one engine process alive: starts it, reports its death at once, restarts it after a growing
// pause, and kills one that hangs. The last lines of its output are kept for errors.
//
// Two callers need two kinds of patience. A run gives up, with the engine's last words, if the
// first start does not get as far as joining the broker, or if several in a row do not later. A
// service gives up only an engine whose first start refuses what the user gave, and lets one leave
// that has drained.
// Thread safety: one thread, which must live as long as the engine may.
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "engine/supervise/child_process.hpp"
#include "schemas/base/clock.hpp"

namespace millrace::supervise {

enum class Patience : std::uint8_t { run, service };

struct SupervisorOptions {
  std::string program;
  std::vector<std::string> arguments;
  std::string what = "the engine";  // in messages
  std::string log_path;             // of the file that errors name; empty: none
  Patience patience = Patience::run;
  std::uint32_t pause_ms = 250;  // before the first restart; doubles
  std::uint32_t pause_max_ms = 10'000;
  // A run gives up an engine that has joined before after so many starts in a row without joining.
  std::uint32_t hopeless_starts = 5;
  std::uint32_t stop_ms = 2'000;  // from SIGTERM to SIGKILL
};

struct SupervisorHooks {
  std::function<void()> died;  // at once, so that the broker requeues the engine's jobs
  std::function<void(const std::string& event, const Error& error)> trouble;
  std::function<Status(const std::string& text)> output;  // what the engine has written
};

// True if an error refuses what the user gave, so that another option, file or device may help.
// After any other error the log is worth reading.
bool is_refusal(Code code);

class Supervisor {
 public:
  Supervisor(SupervisorOptions options, const Clock& clock, SupervisorHooks hooks);

  Status start();
  // Watches the process and restarts it. Errors, when it gives up: the engine's own error, or
  // engine_failed with its last words. Both name the log, unless the engine refused what it got.
  Status tick();
  void joined();  // call this when the engine has joined the broker
  void hung();    // call this when the engine makes no progress: kills it
  void drain();   // asks the engine to leave, and starts it no more; the second call: at once
  void stop();    // ends the process for good

  bool has_joined() const { return joined_ && child_.running(); }  // the process that runs now
  // True once the engine has left, or was given up, and will not be started again.
  bool over() const { return over_; }
  std::uint32_t starts() const { return starts_; }

 private:
  void drain_output();
  void pause();
  Status ended(const ChildProcess::Ended& ended);
  bool is_hopeless(const ChildProcess::Ended& ended) const;
  Error last_error(const ChildProcess::Ended& ended) const;
  std::string last_words() const;

  SupervisorOptions options_;
  const Clock& clock_;
  SupervisorHooks hooks_;
  ChildProcess child_;
  std::string tail_;
  std::int64_t restart_us_ = 0;
  std::uint32_t pause_ms_;
  std::uint32_t starts_ = 0;
  std::uint32_t fruitless_ = 0;  // starts in a row that did not join
  bool joined_ = false;          // the current process has joined
  bool ever_joined_ = false;
  bool draining_ = false, over_ = false;
};

}  // namespace millrace::supervise
