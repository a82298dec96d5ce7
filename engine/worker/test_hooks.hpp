#pragma once
// For tests only: makes this process die or hang while it runs a certain job, so that tests can
// show what the rest of the system does then. Environment variables set the hooks:
//   MILLRACE_TEST_ABORT_ON=TEXT   abort() in a step with a job whose prompt or custom_id holds TEXT
//   MILLRACE_TEST_HANG_ON=TEXT    never end that step
// Thread safety: immutable.
#include <string>

#include "engine/worker/executor.hpp"

namespace millrace::worker {

class TestHooks {
 public:
  static TestHooks from_environment();

  bool aborts_on(const Task& task) const { return matches(abort_on_, task); }
  bool hangs_on(const Task& task) const { return matches(hang_on_, task); }
  [[noreturn]] static void hang();  // the calling thread, for ever

 private:
  static bool matches(const std::string& text, const Task& task);
  std::string abort_on_, hang_on_;  // empty: off
};

}  // namespace millrace::worker
