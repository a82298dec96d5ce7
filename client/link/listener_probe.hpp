#pragma once
// Tells whether anybody listens at an endpoint, to say why a broker does not answer: a program that
// does not run and one that is silent want different help. Thread safety: any thread.
#include <cstdint>
#include <string>

namespace millrace::client {

enum class Listener : std::uint8_t {
  none,     // nobody listens, or no such host or folder is known
  there,    // a connection was accepted
  unknown,  // it cannot be told: the host does not answer, or the endpoint is of another kind
};

// Connects to "ipc://PATH" or "tcp://HOST:PORT", sends nothing, and waits a second at most.
Listener probe_listener(const std::string& endpoint);

}  // namespace millrace::client
