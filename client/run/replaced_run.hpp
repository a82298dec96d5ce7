#pragma once
// An earlier run that `--restart` replaces. Its files and its output are set aside until the new
// run has met an engine: a restart that cannot begin, for a mistyped option say, costs nothing.
//
//   OUTPUT.millrace/replaced.NAME  what was OUTPUT.millrace/NAME
//   OUTPUT.replaced                what was OUTPUT
//
// A file in the folder says how far that is, and is renamed as it goes on: `replacing` while files
// are moved, aside or back; `replaced` when all are aside; `dropped` when nobody wants them any
// more. Whatever cuts a step short, power too, the step is ended when the folder is next opened.
// Errors: those of Env; conflict where OUTPUT.replaced is somebody's. Thread safety: one thread,
// which holds the folder's lock.
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
  Result<bool> is_there() const;  // all of it, aside

 private:
  std::string path(std::string_view name) const { return folder_ + "/" + std::string(name); }
  std::string output_aside() const { return output_ + ".replaced"; }
  Result<std::vector<std::string>> names_aside() const;
  Status put_back();
  Status remove_own();
  Status remove_aside();
  Status remove_if_there(const std::string& file);

  Env* env_;
  std::string folder_, output_;
  IsOwn is_own_;
};

}  // namespace millrace::client
