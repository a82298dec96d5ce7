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
  // The parent may have ended before the call of prctl, and then no signal will come.
  if (::getppid() != parent)
    return fail(Code::interrupted, "the parent process has ended already",
                "leave out --die-with-parent to run without a parent");
  return {};
}

}  // namespace millrace::worker
