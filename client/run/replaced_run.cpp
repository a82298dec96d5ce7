#include "client/run/replaced_run.hpp"

#include <array>

namespace millrace::client {
namespace {

constexpr std::string_view moving = "replacing", whole = "replaced", unwanted = "dropped";
constexpr std::string_view prefix = "replaced.";
// The content of the marker: which outputs there were, each by its word.
constexpr std::array<std::string_view, 2> had = {"output", "errors"};
constexpr std::uint64_t most_bytes = 64;

std::string aside(const std::string& output) {
  return output + ".replaced";
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

Status ReplacedRun::set_aside() {
  std::string there;  // what the marker says
  for (std::size_t i = 0; i < outputs_.size(); ++i) {
    MILLRACE_ASSIGN(const bool taken, env_->exists(aside(outputs_[i])));
    if (taken) {
      return fail(
          Code::conflict, aside(outputs_[i]) + " is in the way of --restart",
          "it may hold the results of an earlier run: move it away, or name another --output");
    }
    MILLRACE_ASSIGN(const bool output_there, env_->exists(outputs_[i]));
    there += output_there ? (there.empty() ? "" : " ") + std::string(had[i]) : "";
  }
  MILLRACE_TRY(write_file_atomically(*env_, path(moving), there));
  for (std::size_t i = 0; i < outputs_.size(); ++i) {
    if (there.contains(had[i])) {
      MILLRACE_TRY(env_->rename(outputs_[i], aside(outputs_[i])));
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
    MILLRACE_ASSIGN(const std::string said, read_file(*env_, path(whole), most_bytes));
    MILLRACE_TRY(put_outputs_back(said));
    MILLRACE_TRY(remove_own());
    for (std::size_t i = 0; i < outputs_.size(); ++i) {
      MILLRACE_TRY(said.contains(had[i]) ? Status() : remove_if_there(outputs_[i]));
    }
    MILLRACE_TRY(env_->rename(path(whole), path(moving)));
  }
  return put_back();
}

Status ReplacedRun::put_outputs_back(std::string_view said) {
  for (std::size_t i = 0; i < outputs_.size(); ++i) {
    MILLRACE_ASSIGN(const bool waits, env_->exists(aside(outputs_[i])));
    if (said.contains(had[i]) && waits) {
      MILLRACE_TRY(env_->rename(aside(outputs_[i]), outputs_[i]));
    }
  }
  return {};
}

Status ReplacedRun::put_back() {
  MILLRACE_ASSIGN(const bool under_way, env_->exists(path(moving)));
  if (!under_way) {
    return {};
  }
  MILLRACE_ASSIGN(const std::string said, read_file(*env_, path(moving), most_bytes));
  MILLRACE_TRY(put_outputs_back(said));
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
  for (const std::string& output : outputs_) {
    MILLRACE_TRY(remove_if_there(aside(output)));
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
