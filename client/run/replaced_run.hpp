#pragma once
// An earlier run that `--restart` replaces. Its files and its output are set aside until an engine
// has joined the new run, so that a restart that cannot begin, because of a mistyped option say,
// costs nothing.
//
//   OUTPUT.millrace/replaced.NAME  what was OUTPUT.millrace/NAME
//   OUTPUT.replaced                what was OUTPUT; the same of a file of errors
//
// A marker file in the folder says how far the replacing is, and is renamed at each step: it is
// `replacing` while files are moved, aside or back, `replaced` when all are aside, and `dropped`
// when they are no longer needed. A step that a crash or a power cut interrupts is completed when
// the folder is next opened. The marker names the output and the file of errors, because the next
// call may have another file of errors, which is then left alone.
// Errors: those of Env; conflict if OUTPUT.replaced exists already; ledger_corrupt if the marker
// cannot be read. Thread safety: one thread, which holds the folder's lock.
#include <string>
#include <string_view>
#include <vector>

#include "schemas/base/env.hpp"

namespace millrace::client {

class ReplacedRun {
 public:
  // `own` tells whether a file of the folder belongs to a run.
  using IsOwn = bool (*)(std::string_view name);
  // `outputs`: the output, and the file of errors if there is one.
  ReplacedRun(Env& env, std::string folder, std::vector<std::string> outputs, IsOwn own)
      : env_(&env), folder_(std::move(folder)), outputs_(std::move(outputs)), is_own_(own) {}

  Status set_aside();
  // Completes a step that was interrupted. `begun`: an engine has joined the new run.
  Status recover(bool begun);
  Status bring_back();            // removes the new run and restores the earlier one
  Status drop();                  // removes the earlier run
  Status remove_new_run();        // removes the new run's files and its output
  Result<bool> is_there() const;  // true if the whole earlier run is aside

 private:
  struct Output {  // of the call that set the earlier run aside
    std::string path;
    bool was_there = false;
  };
  std::string path(std::string_view name) const { return folder_ + "/" + std::string(name); }
  Result<std::string> marker_text(const std::vector<Output>& outputs) const;
  Result<std::vector<Output>> read_marker(std::string_view name) const;
  Status put_outputs_back(const std::vector<Output>& outputs);
  Result<std::vector<std::string>> names_aside() const;
  Status put_back();
  Status remove_own();
  Status remove_aside();
  Status remove_if_there(const std::string& file);

  Env* env_;
  std::string folder_;
  std::vector<std::string> outputs_;
  IsOwn is_own_;
};

}  // namespace millrace::client
