#include "schemas/base/service_manager.hpp"

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <string_view>

#include "schemas/base/log.hpp"

namespace millrace {
namespace {

// Sends a datagram to the socket that $NOTIFY_SOCKET names: a path, or with @ an abstract name.
// Returns 0 or an errno value.
int send_state(std::string_view place, std::string_view state) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (place.size() >= sizeof(address.sun_path)) return ENAMETOOLONG;
  std::memcpy(address.sun_path, place.data(), place.size());
  if (place.front() == '@') address.sun_path[0] = '\0';
  const int handle = ::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (handle < 0) return errno;
  const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + place.size());
  const auto sent = ::sendto(handle, state.data(), state.size(), MSG_NOSIGNAL,
                             reinterpret_cast<const sockaddr*>(&address), size);
  const int error = sent < 0 ? errno : 0;
  ::close(handle);
  return error;
}

void tell(std::string_view state) {
  const char* const place = std::getenv("NOTIFY_SOCKET");
  if (place == nullptr || *place == '\0') return;
  if (const int error = send_state(place, state); error != 0) {
    log_warn("the service manager cannot be told",
             {{"state", state}, {"socket", place}, {"error", std::strerror(error)}});
  }
}

}  // namespace

void tell_ready() {
  tell("READY=1");
}

void tell_stopping() {
  tell("STOPPING=1");
}

}  // namespace millrace
