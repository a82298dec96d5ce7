#include "engine/worker/driver_guard.hpp"

#include <signal.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <utility>

#include "engine/core/device/cores.hpp"
#include "engine/core/device/device.hpp"
#include "engine/core/device/driver_cache.hpp"
#include "engine/core/device/program_cache.hpp"
#include "schemas/base/env.hpp"
#include "schemas/base/log.hpp"

namespace millrace::worker {
namespace {

namespace fs = std::filesystem;

constexpr const char* folder_variable = "POCL_CACHE_DIR";
// Carries, to the program that is started again, which folder the failed start used and how it
// failed.
constexpr const char* again_variable = "MILLRACE_FAILED_START";

std::string variable(const char* name) {
  const char* const value = ::getenv(name);
  return value == nullptr ? std::string() : std::string(value);
}

// The folder's inode: a new folder at the same path has another identity. Empty: no such folder.
std::string identity_of(const std::string& folder) {
  struct stat info {};
  return ::stat(folder.c_str(), &info) == 0 ? std::to_string(info.st_ino) : "";
}

std::uint64_t files_in(const std::string& folder) {
  std::uint64_t files = 0;
  std::error_code error;
  for (fs::recursive_directory_iterator at(folder, error), end; !error && at != end;
       at.increment(error)) {
    files += at->is_regular_file(error) ? 1 : 0;
  }
  return files;
}

}  // namespace

DriverGuard::DriverGuard(std::string program, char** arguments, const engine::DeviceOptions& device)
    : program_(std::move(program)), again_{arguments, again_variable, ""} {
  const std::string failed = variable(again_variable);
  ::unsetenv(again_variable);  // programs that this one starts must not inherit it
  ours_ = take_folder();
  folder_ = engine::pocl_cache_folder();
  if (ours_ && !failed.empty()) {
    sigset_t none;
    sigemptyset(&none);
    ::sigprocmask(SIG_SETMASK, &none, nullptr);  // the mask is that of the thread that faulted
    start_ = Start::again;
    empty_folder(failed);
  }
  // Drivers install signal handlers when they list devices, so this comes before ours are
  // installed. The start itself reports that there is no device.
  const std::uint32_t usable = engine::usable_cores();
  engine::limit_pocl(device.cores == 0 ? usable : std::min(device.cores, usable));
  const auto chosen = engine::chosen_device(device.device);
  pocl_ = chosen && engine::is_pocl(*chosen);
  if (!pocl_ || !ours_ || start_ == Start::again) {
    leave_crash_note(program_, hint());
    return;
  }
  again_.about = identity_of(folder_) + " ";
  const std::string emptied = folder_ + ", the cache of the OpenCL driver PoCL, emptied";
  start_again_on_crash(program_, "it starts again, with " + emptied, again_);
}

// Makes PoCL keep its cache in a folder of ours. False: it keeps its cache elsewhere.
bool DriverGuard::take_folder() {
  const std::string home = engine::cache_home();
  if (home.empty()) return false;
  const std::string own = home + "/pocl", chosen = variable(folder_variable);
  if (!chosen.empty() && chosen != own) return false;
  Status made = posix_env()->make_directories(own);
  if (made && ::access(own.c_str(), R_OK | W_OK | X_OK) != 0) {
    made = fail(Code::io_error, own + " cannot be written", "check its permissions");
  }
  if (!made) {
    log_warn("the OpenCL driver's cache stays where the driver puts it", made.error());
    return false;
  }
  ::setenv(folder_variable, own.c_str(), 1);
  return true;
}

// Renames the folder before removing its files, so that other processes that use the cache never
// see one that is half emptied. When several starts failed on the same damage, only one of them
// empties the folder; the folder's identity tells the others.
void DriverGuard::empty_folder(const std::string& about) {
  const std::size_t space = std::min(about.find(' '), about.size());
  const std::string reason = about.substr(std::min(space + 1, about.size()));
  const std::string aside = folder_ + ".damaged-" + std::to_string(::getpid());
  const auto env = posix_env();
  files_ = files_in(folder_);
  const bool same = about.substr(0, space) == identity_of(folder_);
  Status emptied = same ? env->rename(folder_, aside) : Status();
  const bool other = !same || (!emptied && emptied.error().code == Code::not_found);
  if (emptied || other) emptied = env->make_directories(folder_);
  if (!emptied) {
    return log_warn("the start failed, and the OpenCL driver's cache cannot be emptied",
                    emptied.error());
  }
  if (other) {
    return log_warn("another process emptied the OpenCL driver's cache after a start that failed",
                    {{"driver_cache", folder_}, {"failed_start", reason}});
  }
  std::error_code left;  // files that cannot be removed do no harm: no cache uses them any more
  fs::remove_all(aside, left);
  log_warn("the OpenCL driver's cache was emptied after a start that failed",
           {{"driver_cache", folder_}, {"failed_start", reason}, {"files", files_}});
}

std::string DriverGuard::hint() const {
  if (!pocl_) return "if it happens again, update the device's driver or choose another --device";
  if (start_ != Start::again) {
    return "if this happens at every start, delete " + folder_ +
           ": it is the cache of the OpenCL driver PoCL, which ends the process when a file there "
           "is damaged; the driver creates the folder again";
  }
  if (files_ == 0) return "the start before this one failed as well";
  return "the start before this one failed as well, and the cache of the OpenCL driver PoCL was "
         "emptied between them: if the next start fails too, delete " +
         folder_ + ", then update the driver or choose another --device";
}

Error DriverGuard::failed(Error error) {
  const bool may_be_damage = error.code == Code::device_error || error.code == Code::kernel_build;
  if (start_ == Start::over || !may_be_damage || !pocl_) return error;
  if (ours_ && start_ == Start::first) {
    log_warn("the start failed; starting again with an empty cache of the OpenCL driver", error);
    start_again(again_, std::string(code_name(error.code)));
  }
  error.hint += (error.hint.empty() ? "" : "; ") + hint();
  return error;
}

void DriverGuard::succeeded() {
  start_ = Start::over;
  leave_crash_note(program_, hint());
}

}  // namespace millrace::worker
