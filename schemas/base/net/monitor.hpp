#pragma once
// Reports what happens to a socket's connections, for the log and to tell a user why nothing
// arrives. Thread safety: belongs to the thread that owns the socket.
#include <optional>
#include <string>

#include "schemas/base/net/socket.hpp"

namespace millrace::net {

struct ConnectionEvent {
  enum class Kind : std::uint8_t {
    connected,         // this side's connect succeeded
    retrying,          // it failed; another try follows
    accepted,          // a peer connected
    ready,             // the handshake is done: messages flow
    disconnected,      // a connection is lost
    handshake_failed,  // protocol mismatch, or a refused key
    other
  };
  Kind kind = Kind::other;
  std::string endpoint;
  std::string detail;  // why a handshake failed
  bool key_refused = false;
  bool keys_mismatch = false;  // one side uses keys and the other does not
};
// For a connecting socket: the error where the other side refused this side's key, or one side uses
// keys and the other does not. ZeroMQ gives up then, so the caller must not wait.
std::optional<Error> key_refusal(const ConnectionEvent& event);

class Monitor {
 public:
  // Create it before the socket binds or connects, so that it misses nothing, and destroy it before
  // the socket.
  enum class Events : std::uint8_t { all, failed_handshakes };
  static Result<Monitor> watch(Context& context, Socket& socket, Events events = Events::all);
  Monitor(Monitor&&) noexcept = default;
  Monitor& operator=(Monitor&&) noexcept = default;
  ~Monitor();
  Result<std::optional<ConnectionEvent>> next();    // none: nothing new
  void hand_over() { events_.hand_over(); }         // as Socket::hand_over
  const Socket& events() const { return events_; }  // to add to a Poller

 private:
  Monitor(Socket events, void* watched) : events_(std::move(events)), watched_(watched) {}
  struct Release {
    void operator()(void* socket) const;
  };
  Socket events_;
  std::unique_ptr<void, Release> watched_;
};

}  // namespace millrace::net
