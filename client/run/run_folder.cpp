#include "client/run/run_folder.hpp"

#include <filesystem>
#include <string_view>
#include <system_error>
#include <utility>

#include "client/run/printed_file.hpp"
#include "client/run/standard_input.hpp"

namespace millrace::client {
namespace {

namespace fs = std::filesystem;

constexpr const char* manifest_name = "manifest.json";
constexpr const char* index_name = "lines";
constexpr const char* checkpoint_name = "checkpoint.json";
constexpr const char* lock_name = "lock";
constexpr const char* log_name = "engine.log";
constexpr const char* input_name = "stdin";          // what standard input held
constexpr const char* new_input_name = "stdin.new";  // the same, until this run has accepted it

// True for the files that a run and its backend put into the folder, except for lock and log. The
// ledger is several files.
bool is_own(std::string_view name) {
  return name == manifest_name || name == index_name || name == checkpoint_name ||
         name == input_name || name.starts_with("ledger.sqlite");
}

}  // namespace

RunFolder::RunFolder(Env& env, const RunPaths& paths)
    : env_(&env),
      folder_(paths.output + ".millrace"),
      replaced_(env, folder_, outputs_of(paths), is_own) {}

Result<RunFolder> RunFolder::open(Env& env, const RunPaths& paths,
                                  const std::map<std::string, std::string>& settings,
                                  bool restart) {
  MILLRACE_TRY(check_paths(paths));
  RunFolder run(env, paths);
  MILLRACE_ASSIGN(const bool folder_there, env.exists(run.folder_));
  run.made_folder_ = !folder_there;
  MILLRACE_TRY(env.make_directories(run.folder_));
  auto lock = env.lock(run.path(lock_name));
  if (!lock && lock.error().code == Code::output_in_use) {
    return fail(Code::output_in_use, "another run is writing " + paths.output,
                "wait for its end, or name another --output");
  }
  MILLRACE_ASSIGN(run.lock_, std::move(lock));
  RunPaths real = paths;
  real.output = linked_file(paths.output);
  real.errors = paths.errors.empty() ? "" : linked_file(paths.errors);
  if (Status prepared = run.prepare(real, settings, restart); !prepared) {
    run.forget_new_input();
    if (run.made_folder_) {
      run.leave_folder();
    }
    return fail(std::move(prepared).error());
  }
  return run;
}

Status RunFolder::prepare(const RunPaths& paths, const std::map<std::string, std::string>& settings,
                          bool restart) {
  MILLRACE_TRY(recover());
  MILLRACE_TRY(open_input(paths));
  if (restart) {
    return replace(paths, settings);
  }
  MILLRACE_ASSIGN(const bool known, env_->exists(path(manifest_name)));
  if (known) {
    Status same = go_on(paths, settings);
    if (const RunPaths own = own_paths(paths); !same && is_unused(same.error(), own)) {
      resumed_ = false;
      same = discard(own);
      if (same) {
        same = begin(paths, settings);
      }
    }
    MILLRACE_TRY(same);
  } else {
    MILLRACE_TRY(begin(paths, settings));
  }
  return open_output(paths);
}

// Standard input is copied into the folder, because a run reads its input more than once. Where it
// holds nothing, the copy of an earlier call is used.
Status RunFolder::open_input(const RunPaths& paths) {
  std::vector<std::string> files = paths.inputs;
  std::vector<std::string> names = paths.inputs;
  for (std::size_t i = 0; i < files.size(); ++i) {
    if (files[i] == standard_stream) {
      MILLRACE_TRY(
          keep_standard_input(*env_, path(new_input_name), path(input_name), paths.interrupted));
      files[i] = path(new_input_name);
      names[i] = "standard input";
      new_input_ = true;
    }
  }
  MILLRACE_ASSIGN(input_, InputFiles::open(*env_, files, std::move(names)));
  return {};
}

// Call this before the manifest says what the input is, and when it is known to be the same.
Status RunFolder::accept_input() {
  return std::exchange(new_input_, false) ? env_->rename(path(new_input_name), path(input_name))
                                          : Status();
}

void RunFolder::forget_new_input() {
  if (std::exchange(new_input_, false)) {
    static_cast<void>(env_->remove(path(new_input_name)));
  }
}

Status RunFolder::open_output(const RunPaths& paths) {
  MILLRACE_ASSIGN(checkpoint_, load_checkpoint(*env_, path(checkpoint_name)));
  errors_path_ = paths.errors;
  const std::uint64_t last = manifest_.input.last_number;
  auto output =
      paths.print ? OutputFile::begin(*env_, printed_file(paths.print), last, errors())
                  : OutputFile::open(*env_, paths.output, last, checkpoint_.output_bytes, errors());
  MILLRACE_ASSIGN(OutputFile opened, std::move(output));
  output_ = std::make_unique<OutputFile>(std::move(opened));
  return {};
}

// Removes the folder, which holds nothing of ours but the lock, unless others put files into it.
void RunFolder::leave_folder() {
  static_cast<void>(env_->remove(path(lock_name)));
  lock_.reset();
  std::error_code not_empty;
  fs::remove(folder_, not_empty);
}

// A restart that was interrupted before an engine joined it has not begun.
Status RunFolder::recover() {
  MILLRACE_ASSIGN(const bool replaces, replaced_.is_there());
  MILLRACE_ASSIGN(const bool known, env_->exists(path(manifest_name)));
  bool begun = false;
  if (replaces && known) {
    MILLRACE_ASSIGN(const Manifest manifest, load_manifest(*env_, path(manifest_name)));
    begun = !manifest.fingerprint.empty();
  }
  return replaced_.recover(begun);
}

Status RunFolder::replace(const RunPaths& paths,
                          const std::map<std::string, std::string>& settings) {
  std::error_code error;
  std::map<std::string, fs::file_status> before;
  for (const std::string& file : outputs_of(paths)) {
    before.emplace(file, fs::status(file, error));
  }
  Status begun = replaced_.set_aside();
  if (begun) {
    begun = begin(paths, settings);
  }
  for (const auto& [file, status] : before) {
    if (begun && fs::is_regular_file(status)) {
      fs::permissions(file, status.permissions(), error);  // keeps who may read it
    }
  }
  if (begun) {
    begun = open_output(paths);
  }
  if (!begun) {
    static_cast<void>(replaced_.bring_back());  // if this fails, the next run does it
  }
  return begun;
}

// Leaves out a file of errors that the manifest does not name. This run did not make it, so it must
// not be cut or emptied with the files of the run.
RunPaths RunFolder::own_paths(RunPaths paths) const {
  const fs::path folder = fs::absolute(parent_directory(folder_));
  const auto named = manifest_.settings.find("--errors");
  if (paths.errors.empty() || named == manifest_.settings.end() ||
      fs::path(linked_file(folder / named->second)).lexically_normal() !=
          fs::absolute(paths.errors).lexically_normal()) {
    paths.errors.clear();
  }
  return paths;
}

// A run whose engine never joined (a mistyped --device, a model that cannot be run) has nothing to
// lose, so the next run may have other settings. Its output holds at most the errors of bad lines;
// an output that holds anything else is not ours to discard.
bool RunFolder::is_unused(const Error& difference, const RunPaths& paths) const {
  if (difference.code != Code::settings_changed && difference.code != Code::input_changed) {
    return false;
  }
  if (!manifest_.fingerprint.empty()) {
    return false;
  }
  const auto checkpoint = load_checkpoint(*env_, path(checkpoint_name));
  return checkpoint &&
         OutputFile::open(*env_, paths.output, manifest_.input.last_number,
                          checkpoint->output_bytes, {paths.errors, checkpoint->errors_bytes});
}

// Removes the manifest first: without it the other files are ignored.
Status RunFolder::discard(const RunPaths& paths) {
  MILLRACE_ASSIGN(const std::vector<std::string> names, env_->list(folder_));
  MILLRACE_ASSIGN(const bool known, env_->exists(path(manifest_name)));
  if (known) {
    MILLRACE_TRY(env_->remove(path(manifest_name)));
  }
  for (const std::string& name : names) {
    const bool stays = name == manifest_name || name == lock_name || name == new_input_name;
    if (!stays && !fs::is_directory(path(name))) {
      MILLRACE_TRY(env_->remove(path(name)));
    }
  }
  for (const std::string& file : outputs_of(paths)) {
    MILLRACE_ASSIGN(auto output, env_->open(file, OpenMode::replace, Access::by_umask));
    MILLRACE_TRY(output->sync());
  }
  return {};
}

Status RunFolder::begin(const RunPaths& paths, const std::map<std::string, std::string>& settings) {
  MILLRACE_ASSIGN(const bool there, env_->exists(paths.output));
  made_output_ = !there;
  for (const std::string& file : outputs_of(paths)) {
    MILLRACE_ASSIGN(auto output, env_->open(file, OpenMode::write, Access::by_umask));
    MILLRACE_ASSIGN(const std::uint64_t size, output->size());
    if (size != 0) {
      const bool is_output = file == paths.output;
      return fail(Code::conflict,
                  file + " exists and is not the " + (is_output ? "output" : "file of errors") +
                      " of a run that could go on",
                  std::string("name another ") + (is_output ? "--output" : "--errors") +
                      (paths.print ? ", or remove it: a run that prints its results begins anew"
                                   : ", or overwrite it with --restart"));
    }
  }
  // A ledger without a manifest is left from a start that was interrupted, and holds no jobs yet.
  MILLRACE_ASSIGN(const std::vector<std::string> names, env_->list(folder_));
  for (const std::string& name : names) {
    if (name.starts_with("ledger") || name == checkpoint_name) {
      MILLRACE_TRY(env_->remove(path(name)));
    }
  }
  MILLRACE_ASSIGN(manifest_.input, write_line_index(*env_, *input_, path(index_name)));
  manifest_.input_path = input_->path();
  manifest_.settings = settings;
  MILLRACE_TRY(accept_input());
  return save_manifest(*env_, path(manifest_name), manifest_);
}

Status RunFolder::go_on(const RunPaths&, const std::map<std::string, std::string>& settings) {
  resumed_ = true;
  MILLRACE_ASSIGN(manifest_, load_manifest(*env_, path(manifest_name)));
  MILLRACE_TRY(check_settings(manifest_, settings));
  MILLRACE_TRY(check_line_index(*env_, *input_, path(index_name), manifest_.input));
  return accept_input();
}

Result<LineIndexReader> RunFolder::index() const {
  MILLRACE_ASSIGN(auto file, env_->open(path(index_name), OpenMode::read));
  return LineIndexReader(std::move(file), *input_);
}

Status RunFolder::meet_engine(const std::string& fingerprint, const EffectiveKv& kv) {
  if (manifest_.fingerprint == fingerprint) {
    return {};
  }
  if (!manifest_.fingerprint.empty()) {
    return fail(other_engine(manifest_, fingerprint, kv));
  }
  Manifest met = manifest_;
  met.fingerprint = fingerprint;
  met.kv = kv;
  MILLRACE_TRY(save_manifest(*env_, path(manifest_name), met));
  manifest_ = std::move(met);  // only now: undo() acts if the manifest could not be saved
  return replaced_.drop();
}

bool RunFolder::undo(UndoLog log) {
  if (resumed_ || !made_output_ || !manifest_.fingerprint.empty()) {
    return false;
  }
  output_.reset();
  const bool replaces = replaced_.is_there().value_or(true);
  if (!(replaces ? replaced_.bring_back() : replaced_.remove_new_run())) {
    return false;
  }
  if (log == UndoLog::remove) {
    static_cast<void>(env_->remove(path(log_name)));
  }
  if (made_folder_) {
    leave_folder();
  } else {
    static_cast<void>(env_->remove(path(lock_name)));
    lock_.reset();
  }
  return true;
}

Status RunFolder::settle(const std::string& epoch, std::uint64_t number) {
  MILLRACE_TRY(output_->sync());
  checkpoint_ = {epoch, number, output_->size(), output_->errors_size()};
  return save_checkpoint(*env_, path(checkpoint_name), checkpoint_);
}

// The order matters after a crash. Once the manifest has the new count, the output may lose its
// failed lines: their jobs get new ids. Without them the output is shorter than the checkpoint of
// before says, so the run would read the whole stream again, which holds nothing new.
Status RunFolder::retry_failed() {
  ++manifest_.retries;
  MILLRACE_TRY(save_manifest(*env_, path(manifest_name), manifest_));
  const std::string output_path = output_->path();
  output_.reset();
  MILLRACE_TRY(OutputFile::drop_failed(*env_, output_path, errors()));
  MILLRACE_ASSIGN(OutputFile output,
                  OutputFile::open(*env_, output_path, manifest_.input.last_number,
                                   checkpoint_.output_bytes, errors()));
  output_ = std::make_unique<OutputFile>(std::move(output));
  return settle(checkpoint_.epoch, checkpoint_.number);
}

}  // namespace millrace::client
