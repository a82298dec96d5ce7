#include "broker/server/sockets.hpp"

#include <utility>

#include "schemas/base/log.hpp"
#include "schemas/base/net/local_endpoint.hpp"
#include "schemas/codec.hpp"

namespace millrace::broker {
namespace {

Status check_endpoint(const char* what, const std::string& endpoint, bool required) {
  if (endpoint.empty() && !required) return {};
  if (endpoint.empty()) {
    return fail(
        Code::usage, std::string("no endpoint is given for ") + what,
        "give one, e.g. " + net::local_endpoint(net::clients_socket) + " or tcp://127.0.0.1:5570");
  }
  if (net::is_loopback(endpoint)) return {};
  if (endpoint.find("://") == endpoint.npos) {
    return fail(Code::usage,
                std::string("cannot listen for ") + what + " on \"" + endpoint +
                    "\": it is not an endpoint",
                "use tcp://127.0.0.1:PORT or ipc://PATH");
  }
  return fail(Code::unauthorized,
              std::string("cannot listen for ") + what + " on " + endpoint +
                  ": other machines could reach it, and this version has no keys to tell who "
                  "they are",
              "use 127.0.0.1, [::1] or ipc://; reach it from elsewhere through an ssh tunnel");
}

Result<std::pair<net::Socket, std::string>> bound(net::Context& context, net::Kind kind,
                                                  const std::string& endpoint,
                                                  const net::SocketOptions& options = {}) {
  MILLRACE_TRY(net::prepare_endpoint(endpoint));
  MILLRACE_ASSIGN(auto socket, net::Socket::open(context, kind, options));
  MILLRACE_TRY(socket.bind(endpoint));
  MILLRACE_ASSIGN(auto last, socket.last_endpoint());
  socket.hand_over();
  return std::pair(std::move(socket), std::move(last));
}

// Turns a frame into an event; a frame that does not decode becomes Malformed.
Event event_of(const Peer& peer, const std::string& frame) {
  auto envelope = decode_envelope(frame);
  if (!envelope) return Malformed{peer, peek_id(frame), std::move(envelope.error())};
  return Received{peer, std::move(*envelope), frame.size()};
}

}  // namespace

Status check_endpoints(const ServerOptions& options) {
  MILLRACE_TRY(check_endpoint("clients", options.clients, true));
  MILLRACE_TRY(check_endpoint("engines", options.engines, true));
  MILLRACE_TRY(check_endpoint("the doorbell", options.doorbell, false));
  return check_endpoint("pushed jobs", options.push, false);
}

Result<Sockets> Sockets::open(net::Context& context, const ServerOptions& options) {
  MILLRACE_TRY(check_endpoints(options));
  const net::SocketOptions from_clients{.send_queue = limits::client_high_water_mark,
                                        .receive_queue = limits::client_receive_queue,
                                        .message_bytes = limits::client_frame_bytes};
  MILLRACE_ASSIGN(auto clients, bound(context, net::Kind::router, options.clients, from_clients));
  MILLRACE_ASSIGN(auto engines, bound(context, net::Kind::router, options.engines,
                                      {.receive_queue = limits::engine_receive_queue}));
  Sockets sockets(std::move(clients.first), std::move(engines.first));
  sockets.clients_endpoint_ = std::move(clients.second);
  sockets.engines_endpoint_ = std::move(engines.second);
  if (!options.doorbell.empty()) {
    MILLRACE_ASSIGN(auto bell, bound(context, net::Kind::pub, options.doorbell));
    sockets.doorbell_ = std::move(bell.first);
    sockets.doorbell_endpoint_ = std::move(bell.second);
  }
  if (!options.push.empty()) {
    MILLRACE_ASSIGN(auto push, bound(context, net::Kind::pull, options.push, from_clients));
    sockets.push_ = std::move(push.first);
    sockets.push_endpoint_ = std::move(push.second);
  }
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
  while ((clients || engines || push) && events.size() < most) {
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
  }
  return {};
}

Result<bool> Sockets::receive_one(net::Socket& socket, Endpoint endpoint,
                                  std::vector<Event>& events) {
  auto message = socket.receive();
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
  if (frames.size() == 1) {
    events.push_back(event_of(peer, frames.front()));
  } else {
    events.push_back(
        Malformed{peer,
                  0,
                  {Code::malformed_frame,
                   "the message has " + std::to_string(frames.size()) + " frames instead of one",
                   "send each message as one frame, from a DEALER socket"}});
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
  // Partials may be lost, so they do not fill a backlog that answers need.
  if (std::holds_alternative<Partials>(out.envelope.message) &&
      backlog_.bytes(route) + frame.size() > limits::unread_partial_bytes) {
    ++dropped_;
    return {};
  }
  if (backlog_.add(route, std::move(frame), now_us)) {
    events.push_back(Stalled{out.peer});
    return {};
  }
  ++dropped_;
  log_warn("a client does not read its answers: its session ends, its waiting answers are dropped");
  events.push_back(PeerGone{out.peer});
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
  if (!doorbell_) return {};
  auto sent = doorbell_->send({ring.stream, ring.epoch, std::to_string(ring.high)});
  if (!sent && sent.error().code != Code::overloaded) return sent;
  return {};
}

}  // namespace millrace::broker
