#pragma once
// A process that compiles programs for this one; internal to this folder. NVIDIA's driver holds
// locks while it compiles, so a process compiles hardly faster with many threads than with one.
//
// A helper only fills caches: its binary goes into the program cache, the driver's code into the
// driver's cache. Then this process builds the program as it does when both are full. So whatever
// becomes of a helper, the program is built, and errors are those of building it here.
//
// Messages over a socket are texts, each a length (u64) and its bytes. The first two name the
// device and the folder of the cache; then come three for each program, its name, whether it is
// completed, and its source, which the helper answers with one: whether it was built. Thread
// safety: one thread.
#include <sys/types.h>

#include <optional>
#include <string>
#include <string_view>

#include "engine/core/device/program_builder.hpp"

namespace millrace::engine {

class ProgramHelper {
 public:
  // `program` is a path; see helper_program.hpp. Null if it cannot be started.
  static std::unique_ptr<ProgramHelper> start(const std::string& program,
                                              const BuildTarget& target);
  ProgramHelper(const ProgramHelper&) = delete;
  ProgramHelper& operator=(const ProgramHelper&) = delete;
  // Waits for the end of the process, which comes soon, because it has nothing left to do.
  ~ProgramHelper();

  // Whether the program is in the caches now. It is not if the compiler refuses it.
  bool build(const ProgramSource& source);
  bool lost() const { return lost_; }  // it gave no answer, and will give none

 private:
  ProgramHelper(int socket, pid_t process) : socket_(socket), process_(process) {}

  int socket_;
  pid_t process_;
  bool lost_ = false;
};

}  // namespace millrace::engine
