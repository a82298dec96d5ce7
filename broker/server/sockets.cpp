#include "broker/server/sockets.hpp"

#include <utility>

#include "schemas/base/log.hpp"
#include "schemas/base/net/local_endpoint.hpp"
#include "schemas/codec.hpp"

namespace millrace::broker {
namespace {

constexpr std::int64_t forget_ms = 1'000;

Status check_endpoint(const char* what, const std::string& endpoint, bool required, bool keyed) {
  if (endpoint.empty() && !required) return {};
  if (endpoint.empty()) {
    return fail(
        Code::usage, std::string("no endpoint is given for ") + what,
        "give one, e.g. " + net::local_endpoint(net::clients_socket) + " or tcp://127.0.0.1:5570");
  }
  if (net::is_loopback(endpoint)) return {};
  if (keyed && endpoint.starts_with("tcp://")) return {};
  if (keyed || endpoint.find("://") == endpoint.npos) {
    return fail(Code::usage,
                std::string("cannot listen for ") + what + " on \"" + endpoint +
                    "\": it is not an endpoint",
                "use tcp://127.0.0.1:PORT or ipc://PATH");
  }
  return fail(Code::unauthorized,
              std::string("cannot listen for ") + what + " on " + endpoint +
                  ": other machines could reach it, and without keys nobody knows who they are",
              "give --keys FOLDER (make the keys with `millrace keys`), or use 127.0.0.1, [::1] or "
              "ipc://");
}

Result<std::pair<net::Socket, std::string>> bound(net::Context& context, net::Kind kind,
                                                  const std::string& endpoint,
                                                  const net::SocketOptions& options,
                                                  std::vector<net::Monitor>& monitors) {
  MILLRACE_TRY(net::prepare_endpoint(endpoint));
  MILLRACE_ASSIGN(auto socket, net::Socket::open(context, kind, options));
  if (!options.curve.empty()) {
    MILLRACE_ASSIGN(auto monitor,
                    net::Monitor::watch(context, socket, net::Monitor::Events::failed_handshakes));
    monitor.hand_over();
    monitors.push_back(std::move(monitor));
  }
  MILLRACE_TRY(socket.bind(endpoint));
  MILLRACE_ASSIGN(auto last, socket.last_endpoint());
  socket.hand_over();
  return std::pair(std::move(socket), std::move(last));
}

// Turns a frame into an event; a frame that does not decode becomes Malformed.
Event event_of(const Peer& peer, const std::string& frame, const net::Sender& sender) {
  auto envelope = decode_envelope(frame);
  if (!envelope) return Malformed{peer, peek_id(frame), std::move(envelope.error()), sender.user};
  return Received{peer, std::move(*envelope), frame.size(), sender.user};
}

// Waits for so many events and drops them.
Status forget(net::Monitor& monitor, std::size_t events) {
  net::Poller poller;
  poller.add(monitor.events());
  for (std::size_t seen = 0; seen < events;) {
    MILLRACE_ASSIGN(const bool some, poller.wait(forget_ms));
    MILLRACE_ASSIGN(const auto event, monitor.next());
    if (event) ++seen;
    if (!some) break;  // it comes late, and will be counted
  }
  monitor.hand_over();
  return {};
}

}  // namespace

Status check_endpoints(const ServerOptions& options) {
  const bool keyed = !options.keys.empty();
  MILLRACE_TRY(check_endpoint("clients", options.clients, true, keyed));
  MILLRACE_TRY(check_endpoint("engines", options.engines, true, keyed));
  MILLRACE_TRY(check_endpoint("the doorbell", options.doorbell, false, keyed));
  return check_endpoint("pushed jobs", options.push, false, keyed);
}

Result<Sockets> Sockets::open(net::Context& context, const ServerOptions& options,
                              const Security& security) {
  MILLRACE_TRY(check_endpoints(options));
  const net::SocketOptions from_clients{.send_queue = limits::client_high_water_mark,
                                        .receive_queue = limits::client_receive_queue,
                                        .message_bytes = limits::client_frame_bytes,
                                        .curve = security.curve};
  const net::SocketOptions from_engines{.receive_queue = limits::engine_receive_queue,
                                        .curve = security.curve};
  std::vector<net::Monitor> monitors;
  MILLRACE_ASSIGN(auto clients,
                  bound(context, net::Kind::router, options.clients, from_clients, monitors));
  MILLRACE_ASSIGN(auto engines,
                  bound(context, net::Kind::router, options.engines, from_engines, monitors));
  Sockets sockets(std::move(clients.first), std::move(engines.first));
  sockets.keyed_ = !security.curve.empty();
  sockets.clients_endpoint_ = std::move(clients.second);
  sockets.engines_endpoint_ = std::move(engines.second);
  if (!options.doorbell.empty()) {
    MILLRACE_ASSIGN(auto bell, DoorbellSocket::open(context, options.doorbell, security.curve,
                                                    security.grants));
    sockets.doorbell_ = std::move(bell);
    sockets.doorbell_->hand_over();
    sockets.doorbell_endpoint_ = sockets.doorbell_->endpoint();
  }
  if (!options.push.empty()) {
    MILLRACE_ASSIGN(auto push,
                    bound(context, net::Kind::pull, options.push, from_clients, monitors));
    sockets.push_ = std::move(push.first);
    sockets.push_endpoint_ = std::move(push.second);
  }
  sockets.monitors_ = std::move(monitors);
  return sockets;
}

void Sockets::watch(net::Poller& poller) {
  poller.add(clients_);
  poller.add(engines_);
  if (push_) push_place_ = poller.add(*push_);
}

void Sockets::watch_push(net::Poller& poller, bool on) {
  if (push_place_) poller.watch_readable(*push_place_, on);
}

Status Sockets::receive(std::vector<Event>& events, bool with_push, std::size_t most) {
  bool clients = true, engines = true, push = push_ && with_push;
  std::size_t counted = events.size();
  std::uint64_t bytes = 0;
  while ((clients || engines || push) && events.size() < most &&
         bytes < limits::client_frame_bytes) {
    // Engines first: their heartbeats and ends must not wait behind a flood of submits.
    if (engines) {
      MILLRACE_ASSIGN(engines, receive_one(engines_, Endpoint::engine, events));
    }
    if (clients) {
      MILLRACE_ASSIGN(clients, receive_one(clients_, Endpoint::client, events));
    }
    if (push) {
      MILLRACE_ASSIGN(push, receive_one(*push_, Endpoint::push, events));
    }
    for (; counted < events.size(); ++counted) {
      const auto* received = std::get_if<Received>(&events[counted]);
      if (received != nullptr) bytes += received->bytes;
    }
  }
  return {};
}

Result<bool> Sockets::receive_one(net::Socket& socket, Endpoint endpoint,
                                  std::vector<Event>& events) {
  net::Sender sender;
  auto message = socket.receive(keyed_ ? &sender : nullptr);
  if (!message) {
    if (message.error().code != Code::too_large) return fail(std::move(message.error()));
    ++dropped_;  // it had more frames than any message has; its sender is not known
    return true;
  }
  if (!*message) return false;
  net::Frames& frames = **message;
  Peer peer{endpoint, {}};
  if (endpoint != Endpoint::push) {
    peer.route = std::move(frames.front());
    frames.erase(frames.begin());
  }
  if (keyed_ && sender.chose_route) {
    // Whoever chooses a route could take that of another key once its connection is gone, and get
    // the answers that are on their way to it.
    events.push_back(Malformed{peer,
                               frames.empty() ? 0 : peek_id(frames.back()),
                               {Code::invalid_value, "the connection chose its own routing id",
                                "leave ZMQ_ROUTING_ID empty: the broker chooses one"},
                               sender.user});
  } else if (frames.size() == 1) {
    events.push_back(event_of(peer, frames.front(), sender));
  } else {
    events.push_back(
        Malformed{peer,
                  0,
                  {Code::malformed_frame,
                   "the message has " + std::to_string(frames.size()) + " frames instead of one",
                   "send each message as one frame, from a DEALER socket"},
                  sender.user});
  }
  return true;
}

Status Sockets::send(const Outgoing& out, std::int64_t now_us, std::vector<Event>& events) {
  if (out.peer.endpoint == Endpoint::client) return send_to_client(out, now_us, events);
  auto sent = engines_.send({out.peer.route, encode(out.envelope)});
  if (sent) return {};
  if (sent.error().code == Code::unreachable) {
    events.push_back(PeerGone{out.peer});
    return {};
  }
  if (sent.error().code != Code::overloaded) return sent;
  ++dropped_;  // the engine does not read its messages; it asks again when it does
  return {};
}

Status Sockets::send_to_client(const Outgoing& out, std::int64_t now_us,
                               std::vector<Event>& events) {
  const std::string& route = out.peer.route;
  std::string frame = encode(out.envelope);
  if (!backlog_.holds(route)) {
    auto sent = clients_.send({route, frame});
    if (sent) return {};
    if (sent.error().code == Code::unreachable) {
      events.push_back(PeerGone{out.peer});
      return {};
    }
    if (sent.error().code != Code::overloaded) return sent;
  }
  // Partials may be lost. If they waited, answers would wait behind them, and a reader whose
  // backlog they never let run empty would get no results.
  if (std::holds_alternative<Partials>(out.envelope.message)) {
    ++dropped_;
    return {};
  }
  for (auto& dropped : backlog_.add(route, std::move(frame), now_us)) {
    ++dropped_;
    events.push_back(PeerGone{{Endpoint::client, std::move(dropped)}, true});
  }
  if (backlog_.holds(route)) events.push_back(Stalled{out.peer});
  return {};
}

Status Sockets::send_waiting(std::int64_t now_us, std::vector<Event>& events) {
  MILLRACE_ASSIGN(auto sent, backlog_.send(clients_, now_us));
  for (auto& route : sent.gone)
    events.push_back(PeerGone{Peer{Endpoint::client, std::move(route)}});
  for (auto& route : sent.read)
    events.push_back(Stalled{Peer{Endpoint::client, std::move(route)}, false});
  return {};
}

Status Sockets::ring(const Ring& ring) {
  return doorbell_ ? doorbell_->ring(ring) : Status();
}

Status Sockets::forget_strangers(std::size_t failures_each) {
  if (doorbell_) MILLRACE_TRY(forget(doorbell_->monitor(), failures_each));
  for (net::Monitor& monitor : monitors_) MILLRACE_TRY(forget(monitor, failures_each));
  return {};
}

Status Sockets::check_strangers(std::int64_t now_us) {
  for (net::Monitor& monitor : monitors_) {
    MILLRACE_TRY(count_failures(monitor, refusals_, now_us));
  }
  return doorbell_ ? doorbell_->subscribe(refusals_, now_us) : Status();
}

void Sockets::replace_grants(const std::vector<Grant>& grants) {
  if (doorbell_) doorbell_->replace(grants);
}

}  // namespace millrace::broker
