#pragma once
// Keeps one engine process alive: starts it, tells of its death at once, starts it again after a
// growing pause, ends one that hangs. Gives up where it never gets as far as joining the broker,
// with the engine's own words. Its output goes to a log file; the last lines are kept for errors.
// Thread safety: one thread, the one that lives as long as the run.
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
  bool log_stays = true;         // after the run, so that an error may name it
  std::uint32_t pause_ms = 250;  // before the first restart; doubles
  std::uint32_t pause_max_ms = 10'000;
  std::uint32_t hopeless_starts = 5;  // in a row, without joining, after it had joined once
  std::uint32_t stop_ms = 2'000;      // from SIGTERM to SIGKILL
};

// Whether an error refuses what the user gave: another option, file or device may do. Of what fails
// for other reasons the log is worth a look.
bool is_refusal(Code code);

class Supervisor {
 public:
  // `on_death` is called at once when the process has ended, so that its jobs are handed on.
  Supervisor(SupervisorOptions options, Env& env, const Clock& clock, RunObserver& observer,
             std::function<void()> on_death);

  Status start();
  // Looks after the process. Errors, when it is hopeless: the engine's own, or engine_failed
  // with its last words; both name the log, unless the engine refused what it was given.
  Status tick();
  void joined();  // the broker has heard its hello
  void hung();    // the broker says that it makes no progress: it is killed
  void stop();    // for good
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
  bool joined_ = false;          // this process
  bool ever_joined_ = false;
};

}  // namespace millrace::client
