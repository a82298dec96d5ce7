#include "schemas/base/net/local_endpoint.hpp"

#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <system_error>

namespace millrace::net {
namespace {

constexpr const char* variable = "XDG_RUNTIME_DIR";
constexpr std::string_view scheme = "ipc://";
constexpr mode_t private_mode = 0700;
static_assert(ipc_path_bytes == sizeof(sockaddr_un::sun_path) - 1);

std::string runtime_folder() {
  const char* const base = std::getenv(variable);
  if (base != nullptr && *base != '\0') return std::string(base) + "/millrace";
  return "/tmp/millrace-" + std::to_string(::geteuid());
}

Status check_length(std::string_view endpoint) {
  const std::size_t bytes = endpoint.size() - scheme.size();
  if (bytes <= ipc_path_bytes) return {};
  return fail(Code::usage,
              "the path of " + std::string(endpoint) + " has " + std::to_string(bytes) +
                  " bytes, that of a unix socket at most " + std::to_string(ipc_path_bytes),
              "name a shorter one");
}

std::unexpected<Error> unusable(const std::string& folder, const std::string& why) {
  return fail(Code::io_error, "the folder of the local sockets, " + folder + ", " + why,
              std::string("remove it, set ") + variable +
                  " to a folder of this user, or name another endpoint");
}

Status check_private(const std::string& folder) {
  struct stat info {};
  if (::lstat(folder.c_str(), &info) != 0) {
    return unusable(folder, "cannot be examined: " + std::generic_category().message(errno));
  }
  if (!S_ISDIR(info.st_mode)) return unusable(folder, "is not a folder");
  if (info.st_uid != ::geteuid()) {
    return unusable(folder, "belongs to user " + std::to_string(info.st_uid) + ", not to user " +
                                std::to_string(::geteuid()));
  }
  if ((info.st_mode & 0777 & ~private_mode) == 0) return {};
  return unusable(folder, "may be entered by other users");
}

}  // namespace

std::string local_endpoint(std::string_view socket) {
  return std::string(scheme) + runtime_folder() + "/" + std::string(socket);
}

Status prepare_endpoint(std::string_view endpoint) {
  if (!endpoint.starts_with(scheme)) return {};
  MILLRACE_TRY(check_length(endpoint));
  const std::string folder = runtime_folder();
  if (!endpoint.starts_with(std::string(scheme) + folder + "/")) return {};
  if (!folder.starts_with('/')) return unusable(folder, "is not an absolute path");
  if (::mkdir(folder.c_str(), private_mode) != 0 && errno != EEXIST) {
    return unusable(folder, "cannot be made: " + std::generic_category().message(errno));
  }
  return check_private(folder);
}

}  // namespace millrace::net
