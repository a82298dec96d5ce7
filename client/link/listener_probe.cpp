#include "client/link/listener_probe.hpp"

#include <fcntl.h>
#include <netdb.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <memory>
#include <string_view>

namespace millrace::client {
namespace {

constexpr std::string_view ipc = "ipc://", tcp = "tcp://";
constexpr int patience_ms = 1'000;

Listener connect_to(const sockaddr& address, socklen_t bytes) {
  const int socket = ::socket(address.sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (socket < 0) {
    return Listener::unknown;
  }
  int error = ::connect(socket, &address, bytes) == 0 ? 0 : errno;
  if (error == EINPROGRESS) {
    pollfd wait{socket, POLLOUT, 0};
    socklen_t size = sizeof error;
    if (::poll(&wait, 1, patience_ms) <= 0 ||
        ::getsockopt(socket, SOL_SOCKET, SO_ERROR, &error, &size) != 0) {
      error = ETIMEDOUT;
    }
  }
  ::close(socket);
  const bool nobody = error == ECONNREFUSED || error == ENOENT || error == ENOTDIR;
  return error == 0 || error == EAGAIN ? Listener::there
         : nobody                      ? Listener::none
                                       : Listener::unknown;
}

Listener probe_path(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.empty() || path.size() >= sizeof address.sun_path) {
    return Listener::unknown;
  }
  std::memcpy(address.sun_path, path.data(), path.size());
  return connect_to(reinterpret_cast<const sockaddr&>(address), sizeof address);
}

Listener probe_host(const std::string& place) {
  const std::size_t colon = place.rfind(':');
  if (colon == std::string::npos) {
    return Listener::unknown;
  }
  std::string host = place.substr(0, colon);
  if (host.starts_with('[') && host.ends_with(']')) {
    host = host.substr(1, host.size() - 2);
  }
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (::getaddrinfo(host.c_str(), place.c_str() + colon + 1, &hints, &found) != 0) {
    return Listener::none;
  }
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> all(found, ::freeaddrinfo);
  return connect_to(*all->ai_addr, all->ai_addrlen);
}

}  // namespace

Listener probe_listener(const std::string& endpoint) {
  if (endpoint.starts_with(ipc)) {
    return probe_path(endpoint.substr(ipc.size()));
  }
  return endpoint.starts_with(tcp) ? probe_host(endpoint.substr(tcp.size())) : Listener::unknown;
}

}  // namespace millrace::client
