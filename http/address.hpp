#pragma once
// Where the server listens: "127.0.0.1:8080", "localhost:8080", "[::1]:8080", ":8080" for all
// interfaces; port 0 lets the system choose one. Thread safety: pure functions but for the system.
#include <cstdint>
#include <string>
#include <string_view>

#include "schemas/base/error.hpp"

namespace millrace::http {

struct Address {
  std::string host;  // without brackets; empty: all interfaces
  std::uint16_t port = 0;
};

// Errors: usage.
Result<Address> parse_address(std::string_view text);
// Whether only programs of this machine can reach it. Errors: usage for an unknown host.
Result<bool> is_loopback(const Address& address);
// Checks where a server is to listen. Without keys other machines must not be able to reach it.
// `what` names the server in the message. Errors: usage; unauthorized, with this hint.
Status check_listen(const std::string& listen, bool keyed, const std::string& what,
                    const std::string& hint);

// A socket that listens. Owns its descriptor until it is released.
class Listener {
 public:
  // Errors: usage for an unknown host, io_error where the address is in use or forbidden.
  static Result<Listener> open(const Address& address);
  Listener(Listener&& other) noexcept;
  Listener& operator=(Listener&&) = delete;
  ~Listener();

  int descriptor() const { return descriptor_; }
  int release();
  const std::string& authority() const { return authority_; }  // "127.0.0.1:40123", the real port

 private:
  Listener(int descriptor, std::string authority)
      : descriptor_(descriptor), authority_(std::move(authority)) {}
  int descriptor_;
  std::string authority_;
};

// The part of an authority before its port, without brackets: "::1" of "[::1]:8080".
std::string_view host_of(std::string_view authority);
// Whether a host is a number, such as 127.0.0.1 or ::1.
bool is_numeric_host(std::string_view host);

}  // namespace millrace::http
