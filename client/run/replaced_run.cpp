#include "client/run/replaced_run.hpp"

#include <filesystem>
#include <system_error>

#include "schemas/base/limits.hpp"

namespace millrace::client {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view moving = "replacing", whole = "replaced", unwanted = "dropped";
constexpr std::string_view prefix = "replaced.";
// The content of the marker: a word for each output, its path from the folder of the output, and
// the one byte that no path has.
constexpr std::string_view had = "had ", made = "made ";
constexpr char path_end = '\0';
constexpr std::uint64_t most_bytes = 64 * limits::KiB;

std::string aside(const std::string& output) {
  return output + ".replaced";
}

// The file need not exist.
Result<fs::path> real_path(const std::string& file) {
  std::error_code error;
  const fs::path absolute = fs::absolute(file, error);
  fs::path real = error ? fs::path() : fs::weakly_canonical(absolute, error);
  if (error) {
    return fail(Code::io_error, "cannot find the place of " + file + ": " + error.message(),
                "check the path");
  }
  return real;
}

}  // namespace

Result<bool> ReplacedRun::is_there() const {
  return env_->exists(path(whole));
}

Result<std::vector<std::string>> ReplacedRun::names_aside() const {
  MILLRACE_ASSIGN(std::vector<std::string> names, env_->list(folder_));
  std::erase_if(names, [](const std::string& name) { return !name.starts_with(prefix); });
  return names;
}

// The files of a run may be moved together, so the marker's paths begin at the folder of the
// output.
Result<std::string> ReplacedRun::marker_text(const std::vector<Output>& outputs) const {
  MILLRACE_ASSIGN(const fs::path begin, real_path(parent_directory(folder_)));
  std::string text;
  for (const Output& output : outputs) {
    MILLRACE_ASSIGN(const fs::path file, real_path(output.path));
    text.append(output.was_there ? had : made).append(file.lexically_proximate(begin).string());
    text += path_end;
  }
  return text;
}

Result<std::vector<ReplacedRun::Output>> ReplacedRun::read_marker(std::string_view name) const {
  MILLRACE_ASSIGN(const std::string text, read_file(*env_, path(name), most_bytes));
  const fs::path begin = parent_directory(folder_);
  std::vector<Output> outputs;
  for (std::string_view rest = text; !rest.empty();) {
    const std::size_t end = rest.find(path_end);
    const std::string_view word = rest.starts_with(had) ? had : made;
    if (end == std::string_view::npos || !rest.starts_with(word)) {
      return fail(Code::ledger_corrupt, path(name) + " does not name the outputs of a run",
                  "rename the files replaced.* in that folder and the outputs *.replaced back to "
                  "their names, and remove that file");
    }
    const fs::path file = rest.substr(word.size(), end - word.size());
    outputs.push_back({(begin / file).string(), word == had});
    rest.remove_prefix(end + 1);
  }
  return outputs;
}

Status ReplacedRun::set_aside() {
  std::vector<Output> outputs;
  for (const std::string& output : outputs_) {
    MILLRACE_ASSIGN(const bool taken, env_->exists(aside(output)));
    if (taken) {
      return fail(
          Code::conflict, aside(output) + " is in the way of --restart",
          "it may hold the results of an earlier run: move it away, or name another --output");
    }
    MILLRACE_ASSIGN(const bool output_there, env_->exists(output));
    outputs.push_back({output, output_there});
  }
  MILLRACE_ASSIGN(const std::string text, marker_text(outputs));
  MILLRACE_TRY(write_file_atomically(*env_, path(moving), text));
  for (const Output& output : outputs) {
    if (output.was_there) {
      MILLRACE_TRY(env_->rename(output.path, aside(output.path)));
    }
  }
  MILLRACE_ASSIGN(const std::vector<std::string> names, env_->list(folder_));
  for (const std::string& name : names) {
    if (is_own_(name)) {
      MILLRACE_TRY(env_->rename(path(name), path(prefix) + name));
    }
  }
  return env_->rename(path(moving), path(whole));
}

Status ReplacedRun::recover(bool begun) {
  MILLRACE_ASSIGN(const bool dropping, env_->exists(path(unwanted)));
  if (dropping) {
    return remove_aside();
  }
  MILLRACE_ASSIGN(const bool there, is_there());
  return there && begun ? drop() : bring_back();
}

// If all is aside, first renames the old output over the new one and removes the new run's files.
Status ReplacedRun::bring_back() {
  MILLRACE_ASSIGN(const bool there, is_there());
  if (there) {
    MILLRACE_ASSIGN(const std::vector<Output> outputs, read_marker(whole));
    MILLRACE_TRY(put_outputs_back(outputs));
    MILLRACE_TRY(remove_own());
    for (const Output& output : outputs) {
      MILLRACE_TRY(output.was_there ? Status() : remove_if_there(output.path));
    }
    MILLRACE_TRY(env_->rename(path(whole), path(moving)));
  }
  return put_back();
}

Status ReplacedRun::put_outputs_back(const std::vector<Output>& outputs) {
  for (const Output& output : outputs) {
    MILLRACE_ASSIGN(const bool waits, env_->exists(aside(output.path)));
    if (output.was_there && waits) {
      MILLRACE_TRY(env_->rename(aside(output.path), output.path));
    }
  }
  return {};
}

Status ReplacedRun::put_back() {
  MILLRACE_ASSIGN(const bool under_way, env_->exists(path(moving)));
  if (!under_way) {
    return {};
  }
  MILLRACE_ASSIGN(const std::vector<Output> outputs, read_marker(moving));
  MILLRACE_TRY(put_outputs_back(outputs));
  MILLRACE_ASSIGN(const std::vector<std::string> names, names_aside());
  for (const std::string& name : names) {
    MILLRACE_TRY(env_->rename(path(name), path(name.substr(prefix.size()))));
  }
  return env_->remove(path(moving));
}

Status ReplacedRun::remove_new_run() {
  MILLRACE_TRY(remove_own());
  for (const std::string& output : outputs_) {
    MILLRACE_TRY(remove_if_there(output));
  }
  return {};
}

Status ReplacedRun::remove_own() {
  MILLRACE_ASSIGN(const std::vector<std::string> names, env_->list(folder_));
  for (const std::string& name : names) {
    if (is_own_(name)) {
      MILLRACE_TRY(env_->remove(path(name)));
    }
  }
  return {};
}

Status ReplacedRun::drop() {
  MILLRACE_ASSIGN(const bool there, is_there());
  if (!there) {
    return {};
  }
  MILLRACE_TRY(env_->rename(path(whole), path(unwanted)));
  return remove_aside();
}

Status ReplacedRun::remove_aside() {
  MILLRACE_ASSIGN(const std::vector<Output> outputs, read_marker(unwanted));
  for (const Output& output : outputs) {
    MILLRACE_TRY(output.was_there ? remove_if_there(aside(output.path)) : Status());
  }
  MILLRACE_ASSIGN(const std::vector<std::string> names, names_aside());
  for (const std::string& name : names) {
    MILLRACE_TRY(env_->remove(path(name)));
  }
  return env_->remove(path(unwanted));
}

Status ReplacedRun::remove_if_there(const std::string& file) {
  MILLRACE_ASSIGN(const bool there, env_->exists(file));
  return there ? env_->remove(file) : Status();
}

}  // namespace millrace::client
