#include "engine/worker/parent_watch.hpp"

#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>

namespace millrace::worker {

Status die_with_parent() {
  const pid_t parent = ::getppid();
  if (::prctl(PR_SET_PDEATHSIG, SIGKILL) != 0)
    return fail(Code::io_error, std::string("prctl: ") + std::strerror(errno));
  // It may have gone between the two calls, and then no signal will come.
  if (::getppid() != parent)
    return fail(Code::interrupted, "the parent process has gone already",
                "leave --die-with-parent out to run without one");
  return {};
}

}  // namespace millrace::worker
