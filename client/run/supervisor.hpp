#pragma once
// Keeps one engine process alive: starts it, reports its death at once, restarts it after a growing
// pause, and kills one that hangs. Gives up, with the engine's last words, if the first start does
// not get as far as joining the broker, or if several in a row do not later. The engine's output
// goes to a log file; the last lines are kept for errors. Thread safety: one thread, which must
// live as long as the run.
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "client/run/child_process.hpp"
#include "client/run/observer.hpp"
#include "schemas/base/clock.hpp"
#include "schemas/base/env.hpp"

namespace millrace::client {

struct SupervisorOptions {
  std::string program;
  std::vector<std::string> arguments;
  std::string log_path;
  bool log_stays = true;         // the log outlives the run, so that an error may name it
  std::uint32_t pause_ms = 250;  // before the first restart; doubles
  std::uint32_t pause_max_ms = 10'000;
  // An engine that has joined before is given up after so many starts in a row without joining.
  std::uint32_t hopeless_starts = 5;
  std::uint32_t stop_ms = 2'000;  // from SIGTERM to SIGKILL
};

// True if an error refuses what the user gave, so that another option, file or device may help.
// After any other error the log is worth reading.
bool is_refusal(Code code);

class Supervisor {
 public:
  // Calls `on_death` at once when the process has ended, so that the broker requeues its jobs.
  Supervisor(SupervisorOptions options, Env& env, const Clock& clock, RunObserver& observer,
             std::function<void()> on_death);

  Status start();
  // Watches the process and restarts it. Errors, when it gives up: the engine's own error, or
  // engine_failed with its last words. Both name the log, unless the engine refused what it got.
  Status tick();
  void joined();  // call this when the engine has joined the broker
  void hung();    // call this when the engine makes no progress: kills it
  void stop();    // ends the process for good
  std::uint32_t starts() const { return starts_; }

 private:
  void drain_output();
  Status ended(const ChildProcess::Ended& ended);
  std::string last_words() const;

  SupervisorOptions options_;
  Env& env_;
  const Clock& clock_;
  RunObserver& observer_;
  std::function<void()> on_death_;
  ChildProcess child_;
  std::unique_ptr<File> log_;
  std::string tail_;
  std::int64_t restart_us_ = 0;
  std::uint32_t pause_ms_;
  std::uint32_t starts_ = 0;
  std::uint32_t fruitless_ = 0;  // starts in a row that did not join
  bool joined_ = false;          // the current process has joined
  bool ever_joined_ = false;
};

}  // namespace millrace::client
