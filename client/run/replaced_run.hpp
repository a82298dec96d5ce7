#pragma once
// An earlier run that `--restart` replaces. Its files and its output are set aside in the same
// folder until the new run has met an engine: a restart that cannot begin, for a mistyped option
// say, costs nothing.
//
//   OUTPUT.millrace/replaced.NAME    what was OUTPUT.millrace/NAME
//   OUTPUT.millrace/replaced.output  what was OUTPUT
//   OUTPUT.millrace/replaced         all of it is set aside
//
// Whatever cuts a step short, power too, the step is taken again from its beginning: without the
// last file what is set aside goes back, with it the new run's files go first.
// Errors: those of Env. Thread safety: one thread, which holds the folder's lock.
#include <string>
#include <string_view>
#include <vector>

#include "schemas/base/env.hpp"

namespace millrace::client {

class ReplacedRun {
 public:
  // `own`: whether a file of the folder belongs to a run.
  using IsOwn = bool (*)(std::string_view name);
  ReplacedRun(Env& env, std::string folder, std::string output, IsOwn own)
      : env_(&env), folder_(std::move(folder)), output_(std::move(output)), is_own_(own) {}

  Status set_aside();
  // A step that was cut short is ended. `begun`: the new run has met an engine.
  Status recover(bool begun);
  Status bring_back();
  Status drop();
  Status remove_new_run();        // its files and its output
  Result<bool> is_there() const;  // whole

 private:
  std::string path(std::string_view name) const { return folder_ + "/" + std::string(name); }
  Result<std::vector<std::string>> names_aside() const;

  Env* env_;
  std::string folder_, output_;
  IsOwn is_own_;
};

}  // namespace millrace::client
