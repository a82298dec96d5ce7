#include "client/run/run_folder.hpp"

#include <filesystem>
#include <span>
#include <string_view>
#include <system_error>

#include "schemas/base/hash.hpp"
#include "schemas/base/limits.hpp"
#include "schemas/base/split_name.hpp"

namespace millrace::client {
namespace {

namespace fs = std::filesystem;

constexpr const char* manifest_name = "manifest.json";
constexpr const char* index_name = "lines";
constexpr const char* checkpoint_name = "checkpoint.json";
constexpr const char* lock_name = "lock";
constexpr const char* log_name = "engine.log";
constexpr std::uint64_t sample_bytes = 64 * limits::KiB;
constexpr std::uint64_t samples = 256;
constexpr int most_links = 40;  // the limit of Linux

Status check_paths(const RunPaths& paths) {
  std::error_code ignored;
  const fs::file_status input = fs::status(paths.input, ignored);
  if (!fs::exists(input)) {
    return fail(Code::usage, "the input " + paths.input + " does not exist", "check --input");
  }
  if (!fs::is_regular_file(input)) {
    return fail(Code::usage, "the input " + paths.input + " is not a regular file",
                "write it to a file first: a run must be able to read it again");
  }
  const fs::file_status output = fs::status(paths.output, ignored);
  if (fs::exists(output) && !fs::is_regular_file(output)) {
    return fail(Code::usage, "the output " + paths.output + " is not a regular file",
                "name a file: a run must be able to go on where it stopped");
  }
  if (fs::exists(output) && fs::equivalent(paths.input, paths.output, ignored)) {
    return fail(Code::usage, "input and output are the same file, " + paths.input,
                "name another --output");
  }
  const std::string parent = parent_directory(paths.output);
  if (!fs::is_directory(parent, ignored)) {
    return fail(Code::io_error, "the output's folder " + parent + " does not exist",
                "make it, or name another --output");
  }
  return {};
}

// True for the files that a run and its backend put into the folder, except for lock and log. The
// ledger is several files.
bool is_own(std::string_view name) {
  return name == manifest_name || name == index_name || name == checkpoint_name ||
         name.starts_with("ledger.sqlite");
}

// Follows a link to its target, which need not exist: a run moves and makes the file itself.
std::string linked_file(fs::path path) {
  std::error_code error;
  for (int links = 0; links < most_links && fs::is_symlink(path, error); ++links) {
    const fs::path target = fs::read_symlink(path, error);
    if (error) {
      break;
    }
    path = path.parent_path() / target;  // an absolute target replaces the path
  }
  return path.string();
}

}  // namespace

RunFolder::RunFolder(Env& env, const RunPaths& paths)
    : env_(&env),
      folder_(paths.output + ".millrace"),
      replaced_(env, folder_, linked_file(paths.output), is_own) {}

Result<RunFolder> RunFolder::open(Env& env, const RunPaths& paths,
                                  const std::map<std::string, std::string>& settings,
                                  bool restart) {
  MILLRACE_TRY(check_paths(paths));
  RunFolder run(env, paths);
  MILLRACE_ASSIGN(run.input_, env.open(paths.input, OpenMode::read));
  MILLRACE_ASSIGN(const bool folder_there, env.exists(run.folder_));
  run.made_folder_ = !folder_there;
  MILLRACE_TRY(env.make_directories(run.folder_));
  auto lock = env.lock(run.path(lock_name));
  if (!lock && lock.error().code == Code::output_in_use) {
    return fail(Code::output_in_use, "another run is writing " + paths.output,
                "wait for its end, or name another --output");
  }
  MILLRACE_ASSIGN(run.lock_, std::move(lock));
  const RunPaths real{paths.input, linked_file(paths.output)};
  if (Status prepared = run.prepare(real, settings, restart); !prepared) {
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
  if (restart) {
    return replace(paths, settings);
  }
  MILLRACE_ASSIGN(const bool known, env_->exists(path(manifest_name)));
  if (known) {
    Status same = go_on(paths, settings);
    if (!same && is_unused(same.error(), paths)) {
      resumed_ = false;
      same = discard(paths);
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

Status RunFolder::open_output(const RunPaths& paths) {
  MILLRACE_ASSIGN(checkpoint_, load_checkpoint(*env_, path(checkpoint_name)));
  MILLRACE_ASSIGN(
      OutputFile output,
      OutputFile::open(*env_, paths.output, manifest_.input.last_number, checkpoint_.output_bytes));
  output_ = std::make_unique<OutputFile>(std::move(output));
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
  const fs::file_status before = fs::status(paths.output, error);
  Status begun = replaced_.set_aside();
  if (begun) {
    begun = begin(paths, settings);
  }
  if (begun && fs::is_regular_file(before)) {
    fs::permissions(paths.output, before.permissions(), error);  // keeps who may read the output
  }
  if (begun) {
    begun = open_output(paths);
  }
  if (!begun) {
    static_cast<void>(replaced_.bring_back());  // if this fails, the next run does it
  }
  return begun;
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
  return checkpoint && OutputFile::open(*env_, paths.output, manifest_.input.last_number,
                                        checkpoint->output_bytes);
}

// Removes the manifest first: without it the other files are ignored.
Status RunFolder::discard(const RunPaths& paths) {
  MILLRACE_ASSIGN(const std::vector<std::string> names, env_->list(folder_));
  MILLRACE_ASSIGN(const bool known, env_->exists(path(manifest_name)));
  if (known) {
    MILLRACE_TRY(env_->remove(path(manifest_name)));
  }
  for (const std::string& name : names) {
    if (name != manifest_name && name != lock_name && !fs::is_directory(path(name))) {
      MILLRACE_TRY(env_->remove(path(name)));
    }
  }
  MILLRACE_ASSIGN(auto output, env_->open(paths.output, OpenMode::replace, Access::by_umask));
  return output->sync();
}

Status RunFolder::begin(const RunPaths& paths, const std::map<std::string, std::string>& settings) {
  MILLRACE_ASSIGN(const bool there, env_->exists(paths.output));
  made_output_ = !there;
  MILLRACE_ASSIGN(auto output, env_->open(paths.output, OpenMode::write, Access::by_umask));
  MILLRACE_ASSIGN(const std::uint64_t size, output->size());
  if (size != 0) {
    return fail(Code::conflict,
                paths.output + " exists and is not the output of a run that could go on",
                "name another --output, or overwrite it with --restart");
  }
  // A ledger without a manifest is left from a start that was interrupted, and holds no jobs yet.
  MILLRACE_ASSIGN(const std::vector<std::string> names, env_->list(folder_));
  for (const std::string& name : names) {
    if (name.starts_with("ledger") || name == checkpoint_name) {
      MILLRACE_TRY(env_->remove(path(name)));
    }
  }
  MILLRACE_ASSIGN(manifest_.input, write_line_index(*env_, *input_, path(index_name)));
  manifest_.input_path = paths.input;
  manifest_.settings = settings;
  return save_manifest(*env_, path(manifest_name), manifest_);
}

Status RunFolder::go_on(const RunPaths&, const std::map<std::string, std::string>& settings) {
  resumed_ = true;
  MILLRACE_ASSIGN(manifest_, load_manifest(*env_, path(manifest_name)));
  MILLRACE_TRY(check_settings(manifest_, settings));
  return check_line_index(*env_, *input_, path(index_name), manifest_.input);
}

Result<LineIndexReader> RunFolder::index() const {
  MILLRACE_ASSIGN(auto file, env_->open(path(index_name), OpenMode::read));
  return LineIndexReader(std::move(file));
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
  checkpoint_ = {epoch, number, output_->size()};
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
  MILLRACE_TRY(OutputFile::drop_failed(*env_, output_path));
  MILLRACE_ASSIGN(
      OutputFile output,
      OutputFile::open(*env_, output_path, manifest_.input.last_number, checkpoint_.output_bytes));
  output_ = std::make_unique<OutputFile>(std::move(output));
  return settle(checkpoint_.epoch, checkpoint_.number);
}

namespace {

// The size of a file and a hash of samples of it.
Result<std::string> file_identity(Env& env, const std::string& path) {
  MILLRACE_ASSIGN(auto file, env.open(path, OpenMode::read));
  MILLRACE_ASSIGN(const std::uint64_t size, file->size());
  Hasher128 hasher;
  std::string block(sample_bytes, '\0');
  const std::uint64_t step = std::max(sample_bytes, size / samples);
  for (std::uint64_t at = 0; at < size; at += step) {
    MILLRACE_ASSIGN(const std::size_t got, file->read_at(at, std::span(block)));
    hasher.update(std::string_view(block).substr(0, got));
  }
  return std::to_string(size) + "-" + hasher.digest().hex();
}

// The identities of a model folder's files together.
Result<std::string> folder_identity(Env& env, const std::string& folder) {
  std::string all;
  MILLRACE_ASSIGN(const auto names, env.list(folder));
  for (const std::string& name : names) {
    const bool is_read =
        name.ends_with(".json") || name.ends_with(".jinja") || name.ends_with(".safetensors");
    if (!is_read) continue;
    MILLRACE_ASSIGN(const std::string identity, file_identity(env, folder + "/" + name));
    all += name + " " + identity + "\n";
  }
  return "folder-" + hash128(all).hex();
}

}  // namespace

Result<std::string> model_identity(Env& env, const std::string& path) {
  MILLRACE_ASSIGN(const bool is_folder, env.exists(path + "/config.json"));
  if (is_folder) return folder_identity(env, path);
  const auto split = split_name(path);
  if (!split || split->count == 1) return file_identity(env, path);
  std::string all;
  for (std::uint32_t number = 1; number <= split->count; ++number) {
    const std::string part = split->part(number);
    MILLRACE_ASSIGN(const bool is_there, env.exists(part));
    if (!is_there) return "split, without part " + std::to_string(number);  // the engine refuses it
    MILLRACE_ASSIGN(const std::string identity, file_identity(env, part));
    all += identity + "\n";
  }
  return "split-" + hash128(all).hex();
}

}  // namespace millrace::client
