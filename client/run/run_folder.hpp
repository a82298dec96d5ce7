#pragma once
// The folder OUTPUT.millrace/ holds the lock, the manifest, the line index and the ledger of one
// run. Opening it decides whether a run begins, goes on, is done, or is refused.
// Errors: usage (paths), output_in_use, conflict (the output is not this run's), input_changed,
// settings_changed, io_error, disk_full. Thread safety: one thread.
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "client/lines/checkpoint.hpp"
#include "client/lines/input_files.hpp"
#include "client/lines/output_file.hpp"
#include "client/run/manifest.hpp"
#include "client/run/replaced_run.hpp"
#include "client/run/run_paths.hpp"
#include "schemas/base/env.hpp"

namespace millrace::client {

enum class UndoLog : std::uint8_t { keep, remove };  // what undo() does with engine.log

class RunFolder {
 public:
  // `restart` replaces an earlier run, which is kept until an engine has joined or this run is
  // done.
  static Result<RunFolder> open(Env& env, const RunPaths& paths,
                                const std::map<std::string, std::string>& settings, bool restart);

  const Manifest& manifest() const { return manifest_; }
  OutputFile& output() { return *output_; }
  InputFiles& input() { return *input_; }
  bool resumed() const { return resumed_; }
  std::string path(const std::string& name) const { return folder_ + "/" + name; }
  Result<LineIndexReader> index() const;

  // Records the fingerprint and the KV policy of the first engine. A later engine must have the
  // same fingerprint (settings_changed).
  Status meet_engine(const std::string& fingerprint, const EffectiveKv& kv = {});
  // Runs failed lines again: removes them from the output, which holds every line of the input.
  Status retry_failed();
  // Syncs the output, then saves the checkpoint. When this returns, every result up to `number` of
  // the stream has its line on disk, and only then may the ledger's cursor move.
  Status settle(const std::string& epoch, std::uint64_t number);
  const Checkpoint& checkpoint() const { return checkpoint_; }
  // Call this when the output holds every line: removes the run that this one replaced.
  Status finish() { return replaced_.drop(); }
  // Removes what a new run made, if no engine has joined it: a mistyped option leaves nothing
  // behind. Restores the run that this one was to replace, except for the engine's log. Keeps files
  // that others put into the folder, and a folder that was there before. False if this run goes on
  // from an earlier one, if its output existed before, if an engine has joined, or if the earlier
  // run could not be restored.
  bool undo(UndoLog log);
  // True while an earlier run is kept: this run restarts it and no engine has joined yet.
  bool replaces() const { return replaced_.is_there().value_or(false); }

 private:
  RunFolder(Env& env, const RunPaths& paths);
  Status prepare(const RunPaths& paths, const std::map<std::string, std::string>& settings,
                 bool restart);
  void leave_folder();
  Status recover();
  Status replace(const RunPaths& paths, const std::map<std::string, std::string>& settings);
  Status open_input(const RunPaths& paths);
  Status accept_input();
  void forget_new_input();
  ErrorsFile errors() const { return {errors_path_, checkpoint_.errors_bytes}; }
  Status open_output(const RunPaths& paths);
  Status begin(const RunPaths& paths, const std::map<std::string, std::string>& settings);
  Status go_on(const RunPaths& paths, const std::map<std::string, std::string>& settings);
  RunPaths own_paths(RunPaths paths) const;
  Status discard(const RunPaths& paths);
  bool is_unused(const Error& difference, const RunPaths& paths) const;

  Env* env_;
  std::string folder_;
  ReplacedRun replaced_;
  std::unique_ptr<FileLock> lock_;
  std::unique_ptr<InputFiles> input_;
  bool new_input_ = false;  // standard input was copied, and the copy is not accepted yet
  std::string errors_path_;
  std::unique_ptr<OutputFile> output_;
  Manifest manifest_;
  Checkpoint checkpoint_;
  bool resumed_ = false;
  bool made_output_ = false, made_folder_ = false;  // this run created them
};

}  // namespace millrace::client
