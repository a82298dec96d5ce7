#include "client/run/replaced_run.hpp"

namespace millrace::client {
namespace {

constexpr std::string_view whole_name = "replaced";
constexpr std::string_view prefix = "replaced.";
constexpr std::string_view output_name = "replaced.output";

}  // namespace

Result<bool> ReplacedRun::is_there() const {
  return env_->exists(path(whole_name));
}

Result<std::vector<std::string>> ReplacedRun::names_aside() const {
  MILLRACE_ASSIGN(std::vector<std::string> names, env_->list(folder_));
  std::erase_if(names, [](const std::string& name) { return !name.starts_with(prefix); });
  return names;
}

Status ReplacedRun::set_aside() {
  MILLRACE_ASSIGN(const std::vector<std::string> names, env_->list(folder_));
  for (const std::string& name : names) {
    if (is_own_(name)) {
      MILLRACE_TRY(env_->rename(path(name), path(prefix) + name));
    }
  }
  MILLRACE_ASSIGN(const bool output_there, env_->exists(output_));
  if (output_there) {
    MILLRACE_TRY(env_->rename(output_, path(output_name)));
  }
  MILLRACE_ASSIGN(auto whole, env_->open(path(whole_name), OpenMode::replace));
  return whole->sync();
}

Status ReplacedRun::recover(bool begun) {
  MILLRACE_ASSIGN(const bool there, is_there());
  return there && begun ? drop() : bring_back();
}

Status ReplacedRun::bring_back() {
  MILLRACE_ASSIGN(const bool there, is_there());
  if (there) {
    MILLRACE_TRY(remove_new_run());
    MILLRACE_TRY(env_->remove(path(whole_name)));
  }
  MILLRACE_ASSIGN(const std::vector<std::string> names, names_aside());
  for (const std::string& name : names) {
    const std::string to = name == output_name ? output_ : path(name.substr(prefix.size()));
    MILLRACE_TRY(env_->rename(path(name), to));
  }
  return {};
}

Status ReplacedRun::remove_new_run() {
  MILLRACE_ASSIGN(const std::vector<std::string> names, env_->list(folder_));
  for (const std::string& name : names) {
    if (is_own_(name)) {
      MILLRACE_TRY(env_->remove(path(name)));
    }
  }
  MILLRACE_ASSIGN(const bool output_there, env_->exists(output_));
  return output_there ? env_->remove(output_) : Status();
}

// The last file goes last: until then the rest is known to be of no use.
Status ReplacedRun::drop() {
  MILLRACE_ASSIGN(const std::vector<std::string> names, names_aside());
  for (const std::string& name : names) {
    MILLRACE_TRY(env_->remove(path(name)));
  }
  MILLRACE_ASSIGN(const bool there, is_there());
  return there ? env_->remove(path(whole_name)) : Status();
}

}  // namespace millrace::client
