#pragma once
// The broker's sockets: a ROUTER each for clients and engines, an optional PUB doorbell, an
// optional PULL for producers that want no answer. Turns frames into the core's events and its
// messages into frames. Thread safety: any thread may open it; then only the owner's thread may use
// it.
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "broker/core/events.hpp"
#include "broker/server/backlog.hpp"
#include "broker/server/doorbell_socket.hpp"
#include "broker/server/options.hpp"
#include "broker/server/refusal_log.hpp"
#include "schemas/base/net/monitor.hpp"
#include "schemas/base/net/poller.hpp"
#include "schemas/base/net/socket.hpp"

namespace millrace::broker {

struct Security {        // what sockets need of a broker's keys
  net::CurveKeys curve;  // empty: there are no keys
  std::vector<Grant> grants;
};

class Sockets {
 public:
  // Binds the endpoints of the options. Errors: those of check_endpoints and of binding (io_error,
  // usage).
  static Result<Sockets> open(net::Context& context, const ServerOptions& options,
                              const Security& security);

  // The endpoints as bound, with a port in the place of `*`; empty where there is none.
  const std::string& clients() const { return clients_endpoint_; }
  const std::string& engines() const { return engines_endpoint_; }
  const std::string& doorbell() const { return doorbell_endpoint_; }
  const std::string& push() const { return push_endpoint_; }

  void watch(net::Poller& poller);
  void watch_push(net::Poller& poller, bool on);
  // Receives up to about `most` frames, in turn from all sockets, and not many more bytes than the
  // largest frame has. Errors: a socket failed.
  Status receive(std::vector<Event>& events, bool with_push, std::size_t most);
  // Sends a message. A peer that is gone, or that reads too little of its answers, becomes an event
  // (PeerGone), and so does a client that reads them late (Stalled). Errors: a socket failed.
  Status send(const Outgoing& out, std::int64_t now_us, std::vector<Event>& events);
  // Sends frames that wait for peers that did not read. Errors: a socket failed.
  Status send_waiting(std::int64_t now_us, std::vector<Event>& events);
  // When to call send_waiting again; none where no frame waits.
  std::optional<std::int64_t> waiting_due_us() const { return backlog_.due_us(); }
  Status ring(const Ring& ring);
  // Counts the handshakes that failed, logs them, and takes subscriptions to the doorbell. Call it
  // often. Errors: a socket failed.
  Status check_strangers(std::int64_t now_us);
  // Makes subscribers of the doorbell show their keys again.
  void replace_grants(const std::vector<Grant>& grants);
  // Takes the events of the start-up test, which connected as a stranger to every endpoint, off the
  // monitors. The thread that opened the sockets calls it. Errors: a socket failed.
  Status forget_strangers(std::size_t failures_each);
  std::uint64_t refused() const { return refusals_.count(); }  // handshakes and subscriptions
  std::uint64_t dropped() const { return dropped_; }  // undeliverable or unreadable messages

 private:
  Sockets(net::Socket clients, net::Socket engines)
      : clients_(std::move(clients)), engines_(std::move(engines)) {}
  Status send_to_client(const Outgoing& out, std::int64_t now_us, std::vector<Event>& events);
  Result<bool> receive_one(net::Socket& socket, Endpoint endpoint, std::vector<Event>& events);

  net::Socket clients_, engines_;
  std::optional<net::Socket> push_;
  std::optional<DoorbellSocket> doorbell_;
  std::string clients_endpoint_, engines_endpoint_, doorbell_endpoint_, push_endpoint_;
  std::vector<net::Monitor> monitors_;  // of the sockets above, where there are keys
  RefusalLog refusals_;
  bool keyed_ = false;
  std::optional<std::size_t> push_place_;
  Backlog backlog_;  // of clients
  std::uint64_t dropped_ = 0;
};

}  // namespace millrace::broker
