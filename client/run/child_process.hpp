#pragma once
// A child process that dies with its parent's thread, with its standard output and error in a pipe
// that is read without blocking. Errors: io_error, not_found (no such program).
// Thread safety: one thread, which must outlive the child.
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "schemas/base/error.hpp"

namespace millrace::client {

class ChildProcess {
 public:
  ChildProcess() = default;
  ~ChildProcess();  // kills it
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;

  Status start(const std::string& program, const std::vector<std::string>& arguments);
  bool running() const { return pid_ > 0; }
  int pid() const { return pid_; }

  // What it wrote since the last call.
  std::string read_output();
  // How it ended ("exit status 3", "signal 9 (Killed)"), once, when it has.
  struct Ended {
    std::string how;
    int exit_status = -1;  // -1: by a signal
  };
  std::optional<Ended> reap();

  void terminate();  // SIGTERM
  void kill();       // SIGKILL
  // Waits at most wait_ms for the end, then kills; returns when it is gone.
  void stop(std::uint32_t wait_ms);

 private:
  void close_pipe();

  int pid_ = -1;
  int pipe_ = -1;
};

// The program beside this one's own file, else the name alone, for PATH to find.
std::string sibling_program(const std::string& name);

}  // namespace millrace::client
