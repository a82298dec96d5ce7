#include "client/run/replaced_run.hpp"

namespace millrace::client {
namespace {

constexpr std::string_view moving = "replacing", whole = "replaced", unwanted = "dropped";
constexpr std::string_view prefix = "replaced.";
constexpr std::string_view had_output = "output";  // content of the marker if there was an output
constexpr std::uint64_t most_bytes = 64;

}  // namespace

Result<bool> ReplacedRun::is_there() const {
  return env_->exists(path(whole));
}

Result<std::vector<std::string>> ReplacedRun::names_aside() const {
  MILLRACE_ASSIGN(std::vector<std::string> names, env_->list(folder_));
  std::erase_if(names, [](const std::string& name) { return !name.starts_with(prefix); });
  return names;
}

Status ReplacedRun::set_aside() {
  MILLRACE_ASSIGN(const bool taken, env_->exists(output_aside()));
  if (taken) {
    return fail(
        Code::conflict, output_aside() + " is in the way of --restart",
        "it may hold the results of an earlier run: move it away, or name another --output");
  }
  MILLRACE_ASSIGN(const bool output_there, env_->exists(output_));
  MILLRACE_TRY(write_file_atomically(*env_, path(moving), output_there ? had_output : ""));
  if (output_there) {
    MILLRACE_TRY(env_->rename(output_, output_aside()));
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
    MILLRACE_ASSIGN(const std::string said, read_file(*env_, path(whole), most_bytes));
    MILLRACE_ASSIGN(const bool output_waits, env_->exists(output_aside()));
    if (said == had_output && output_waits) {
      MILLRACE_TRY(env_->rename(output_aside(), output_));
    }
    MILLRACE_TRY(remove_own());
    if (said != had_output) {
      MILLRACE_TRY(remove_if_there(output_));
    }
    MILLRACE_TRY(env_->rename(path(whole), path(moving)));
  }
  return put_back();
}

Status ReplacedRun::put_back() {
  MILLRACE_ASSIGN(const bool under_way, env_->exists(path(moving)));
  if (!under_way) {
    return {};
  }
  MILLRACE_ASSIGN(const std::string said, read_file(*env_, path(moving), most_bytes));
  MILLRACE_ASSIGN(const bool output_waits, env_->exists(output_aside()));
  if (said == had_output && output_waits) {
    MILLRACE_TRY(env_->rename(output_aside(), output_));
  }
  MILLRACE_ASSIGN(const std::vector<std::string> names, names_aside());
  for (const std::string& name : names) {
    MILLRACE_TRY(env_->rename(path(name), path(name.substr(prefix.size()))));
  }
  return env_->remove(path(moving));
}

Status ReplacedRun::remove_new_run() {
  MILLRACE_TRY(remove_own());
  return remove_if_there(output_);
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
  MILLRACE_TRY(remove_if_there(output_aside()));
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
