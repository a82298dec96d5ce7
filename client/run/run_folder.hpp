#pragma once
// OUTPUT.millrace/: the lock, the manifest, the line index and the ledger of one run. Opening it
// decides whether a run begins, goes on, is done, or is refused.
// Errors: usage (paths), output_in_use, conflict (the output is somebody else's), input_changed,
// settings_changed, io_error, disk_full. Thread safety: one thread.
#include <map>
#include <memory>
#include <string>

#include "client/run/checkpoint.hpp"
#include "client/run/manifest.hpp"
#include "client/run/output_file.hpp"
#include "client/run/replaced_run.hpp"
#include "schemas/base/env.hpp"

namespace millrace::client {

struct RunPaths {
  std::string input, output;
};

enum class UndoLog : std::uint8_t { keep, remove };  // the engine's

class RunFolder {
 public:
  // `restart` replaces an earlier run, which is kept until this one has met an engine or is done.
  static Result<RunFolder> open(Env& env, const RunPaths& paths,
                                const std::map<std::string, std::string>& settings, bool restart);

  const Manifest& manifest() const { return manifest_; }
  OutputFile& output() { return *output_; }
  File& input() { return *input_; }
  bool resumed() const { return resumed_; }
  std::string path(const std::string& name) const { return folder_ + "/" + name; }
  Result<LineIndexReader> index() const;

  // The first engine's fingerprint and KV policy are written down; a later one's fingerprint must
  // be equal (settings_changed).
  Status meet_engine(const std::string& fingerprint, const EffectiveKv& kv = {});
  // The output is synced, then the checkpoint is saved: every result up to `number` of the stream
  // has its line on disk when this returns, and only then may the ledger's cursor move.
  Status settle(const std::string& epoch, std::uint64_t number);
  const Checkpoint& checkpoint() const { return checkpoint_; }
  // Every line stands in the output: nobody will want the run that this one replaced.
  Status finish() { return replaced_.drop(); }
  // Takes back what a new run made, where no engine has been met: nothing is lost, and nothing
  // stays behind of a mistyped option. A run that it was to replace is back as it was, but for the
  // engine's log. What others put into the folder stays, and the folder with it, as one that was
  // there before. False: it goes on from an earlier run, or has met one.
  bool undo(UndoLog log);
  // Another run is kept meanwhile: this one restarts it and has met no engine.
  bool replaces() const { return replaced_.is_there().value_or(false); }

 private:
  RunFolder(Env& env, const RunPaths& paths);
  Status prepare(const RunPaths& paths, const std::map<std::string, std::string>& settings,
                 bool restart);
  void leave_folder();
  Status recover();
  Status replace(const RunPaths& paths, const std::map<std::string, std::string>& settings);
  Status open_output(const RunPaths& paths);
  Status begin(const RunPaths& paths, const std::map<std::string, std::string>& settings);
  Status go_on(const RunPaths& paths, const std::map<std::string, std::string>& settings);
  Status discard(const RunPaths& paths);
  bool is_unused(const Error& difference, const RunPaths& paths) const;

  Env* env_;
  std::string folder_;
  ReplacedRun replaced_;
  std::unique_ptr<FileLock> lock_;
  std::unique_ptr<File> input_;
  std::unique_ptr<OutputFile> output_;
  Manifest manifest_;
  Checkpoint checkpoint_;
  bool resumed_ = false;
  bool made_output_ = false, made_folder_ = false;  // they were not there before
};

// Tells whether a model file is the same one, without reading all of it: its size and a hash of
// blocks spread over it, as hex.
Result<std::string> model_identity(Env& env, const std::string& path);

}  // namespace millrace::client
