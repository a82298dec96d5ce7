#pragma once
// A child process that dies with its parent's thread. A pipe, which is read without blocking,
// carries its standard output and error. Errors: io_error, not_found (no such program).
// Thread safety: one thread, which must outlive the child.
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "schemas/base/error.hpp"

namespace millrace::supervise {

class ChildProcess {
 public:
  ChildProcess() = default;
  ~ChildProcess();  // kills it
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;

  Status start(const std::string& program, const std::vector<std::string>& arguments);
  bool running() const { return pid_ > 0; }
  int pid() const { return pid_; }

  // Returns what the child wrote since the last call.
  std::string read_output();
  struct Ended {
    std::string how;       // "exit status 3", "signal 9 (Killed)"
    int exit_status = -1;  // -1: a signal ended it
    int signal = 0;        // 0: it exited
  };
  // Returns how the child ended, once; nothing while it runs.
  std::optional<Ended> reap();

  void terminate();  // SIGTERM
  void kill();       // SIGKILL
  // Waits at most wait_ms for its end, then kills it. Returns when the child is gone.
  void finish(std::uint32_t wait_ms);
  void stop(std::uint32_t wait_ms);  // SIGTERM, and finish

 private:
  void close_pipe();

  int pid_ = -1;
  int pipe_ = -1;
};

// Returns the path of the program beside this one's own file, or the bare name if there is none,
// for PATH to find.
std::string sibling_program(const std::string& name);

}  // namespace millrace::supervise
