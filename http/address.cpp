#include "http/address.hpp"

#include <arpa/inet.h>
#include <netdb.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstring>
#include <memory>
#include <utility>

namespace millrace::http {
namespace {

using Found = std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)>;

Result<Found> look_up(const Address& address) {
  addrinfo wanted{};
  wanted.ai_family = AF_UNSPEC;
  wanted.ai_socktype = SOCK_STREAM;
  wanted.ai_flags = AI_PASSIVE | AI_NUMERICSERV;
  addrinfo* found = nullptr;
  const int error = ::getaddrinfo(address.host.empty() ? nullptr : address.host.c_str(),
                                  std::to_string(address.port).c_str(), &wanted, &found);
  if (error != 0) {
    return fail(Code::usage,
                "the host '" + address.host + "' is not known: " + ::gai_strerror(error),
                "give an address of this machine, such as 127.0.0.1:8080");
  }
  return Found(found, &::freeaddrinfo);
}

std::string authority_of(int descriptor) {
  sockaddr_storage name{};
  socklen_t bytes = sizeof name;
  char host[NI_MAXHOST], port[NI_MAXSERV];
  auto* const address = reinterpret_cast<sockaddr*>(&name);
  if (::getsockname(descriptor, address, &bytes) != 0 ||
      ::getnameinfo(address, bytes, host, sizeof host, port, sizeof port,
                    NI_NUMERICHOST | NI_NUMERICSERV) != 0) {
    return {};
  }
  const std::string text = host;
  return (text.contains(':') ? "[" + text + "]" : text) + ":" + port;
}

}  // namespace

Result<Address> parse_address(std::string_view text) {
  const auto colon = text.rfind(':');
  const auto bad = [&] {
    return fail(Code::usage, "'" + std::string(text) + "' is no address of the form HOST:PORT",
                "write it like 127.0.0.1:8080 or [::1]:8080");
  };
  if (colon == std::string_view::npos) return bad();
  std::string_view host = text.substr(0, colon);
  const std::string_view port = text.substr(colon + 1);
  if (host.starts_with('[') && host.ends_with(']')) {
    host = host.substr(1, host.size() - 2);
  } else if (host.contains(':')) {
    return bad();
  }
  Address address{std::string(host), 0};
  const auto [end, error] = std::from_chars(port.data(), port.data() + port.size(), address.port);
  if (port.empty() || error != std::errc{} || end != port.data() + port.size()) return bad();
  return address;
}

Result<bool> is_loopback(const Address& address) {
  if (address.host.empty()) return false;
  MILLRACE_ASSIGN(const Found found, look_up(address));
  for (const addrinfo* one = found.get(); one != nullptr; one = one->ai_next) {
    if (one->ai_family == AF_INET) {
      const auto* in = reinterpret_cast<const sockaddr_in*>(one->ai_addr);
      if ((ntohl(in->sin_addr.s_addr) >> 24) != 127) return false;
    } else {
      const auto* in = reinterpret_cast<const sockaddr_in6*>(one->ai_addr);
      if (!IN6_IS_ADDR_LOOPBACK(&in->sin6_addr)) return false;
    }
  }
  return true;
}

Status check_listen(const std::string& listen, bool keyed, const std::string& what,
                    const std::string& hint) {
  MILLRACE_ASSIGN(const Address address, parse_address(listen));
  MILLRACE_ASSIGN(const bool loopback, is_loopback(address));
  if (loopback || keyed) return {};
  return fail(Code::unauthorized,
              what + " at " + listen +
                  ": other machines could reach it, and there are no keys that say who may",
              hint);
}

Result<Listener> Listener::open(const Address& address) {
  MILLRACE_ASSIGN(const Found found, look_up(address));
  std::string why = "no such interface";
  for (const addrinfo* one = found.get(); one != nullptr; one = one->ai_next) {
    const int descriptor = ::socket(one->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (descriptor < 0) {
      why = std::strerror(errno);
      continue;
    }
    Listener listener(descriptor, {});  // closes it where the rest fails
    const int on = 1;
    ::setsockopt(descriptor, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (::bind(descriptor, one->ai_addr, one->ai_addrlen) != 0 ||
        ::listen(descriptor, SOMAXCONN) != 0) {
      why = std::strerror(errno);
      continue;
    }
    listener.authority_ = authority_of(descriptor);
    return listener;
  }
  return fail(
      Code::io_error,
      "cannot listen for HTTP on " + address.host + ":" + std::to_string(address.port) + ": " + why,
      "choose another address, or stop the program that uses this one");
}

Listener::Listener(Listener&& other) noexcept
    : descriptor_(other.release()), authority_(std::move(other.authority_)) {}

Listener::~Listener() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

int Listener::release() {
  return std::exchange(descriptor_, -1);
}

std::string_view host_of(std::string_view authority) {
  if (authority.starts_with('[')) {
    return authority.substr(1, std::min(authority.find(']'), authority.size()) - 1);
  }
  return authority.substr(0, authority.find(':'));
}

bool is_numeric_host(std::string_view host) {
  const std::string text(host);
  unsigned char bytes[sizeof(in6_addr)];
  return ::inet_pton(AF_INET, text.c_str(), bytes) == 1 ||
         ::inet_pton(AF_INET6, text.c_str(), bytes) == 1;
}

}  // namespace millrace::http
