#include "schemas/base/net/monitor.hpp"

#include <array>
#include <cstdint>
#include <cstring>
#include <zmq.hpp>

#include "schemas/base/random_id.hpp"

namespace millrace::net {
namespace {

ConnectionEvent::Kind kind_of(std::uint16_t event) {
  using enum ConnectionEvent::Kind;
  switch (event) {
    case ZMQ_EVENT_CONNECTED:
      return connected;
    case ZMQ_EVENT_CONNECT_RETRIED:
      return retrying;
    case ZMQ_EVENT_ACCEPTED:
      return accepted;
    case ZMQ_EVENT_HANDSHAKE_SUCCEEDED:
      return ready;
    case ZMQ_EVENT_DISCONNECTED:
      return disconnected;
    case ZMQ_EVENT_HANDSHAKE_FAILED_NO_DETAIL:
    case ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL:
    case ZMQ_EVENT_HANDSHAKE_FAILED_AUTH:
      return handshake_failed;
    default:
      return other;
  }
}

std::string detail_of(std::uint16_t event, std::uint32_t value) {
  if (event == ZMQ_EVENT_HANDSHAKE_FAILED_AUTH) return "key refused";
  if (event == ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL) return "the peer speaks another protocol";
  if (event == ZMQ_EVENT_HANDSHAKE_FAILED_NO_DETAIL) {
    return zmq_strerror(static_cast<int>(value));
  }
  return {};
}

}  // namespace

std::string_view name(ConnectionEvent::Kind kind) {
  constexpr std::array<std::string_view, 7> names = {
      "connected", "retrying", "accepted", "ready", "disconnected", "handshake failed", "other"};
  return names[static_cast<std::size_t>(kind)];
}

void Monitor::Release::operator()(void* socket) const {
  zmq_socket_monitor(socket, nullptr, 0);
}

Result<Monitor> Monitor::watch(Context& context, Socket& socket) {
  const std::string endpoint = "inproc://monitor-" + random_id();
  constexpr int events = ZMQ_EVENT_CONNECTED | ZMQ_EVENT_CONNECT_RETRIED | ZMQ_EVENT_ACCEPTED |
                         ZMQ_EVENT_HANDSHAKE_SUCCEEDED | ZMQ_EVENT_DISCONNECTED |
                         ZMQ_EVENT_HANDSHAKE_FAILED_NO_DETAIL |
                         ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL | ZMQ_EVENT_HANDSHAKE_FAILED_AUTH;
  // cppzmq's own monitor blocks; this one must wait in a Poller, together with other sockets.
  void* const watched = socket.handle().handle();
  if (zmq_socket_monitor(watched, endpoint.c_str(), events) != 0) {
    return fail(Code::io_error, std::string("cannot watch a socket: ") + zmq_strerror(zmq_errno()));
  }
  // libzmq writes to a PAIR socket, so this end must be one too.
  MILLRACE_ASSIGN(Socket reader, Socket::open(context, Kind::pair, {.linger_ms = 0}));
  MILLRACE_TRY(reader.connect(endpoint));
  return Monitor(std::move(reader), watched);
}

Monitor::~Monitor() = default;

Result<std::optional<ConnectionEvent>> Monitor::next() {
  MILLRACE_ASSIGN(auto received, events_.receive());
  if (!received) return std::optional<ConnectionEvent>();
  const Frames& frames = *received;
  if (frames.size() != 2 || frames[0].size() != 6) {
    return fail(Code::internal, "a socket event has an unknown format");
  }
  std::uint16_t event = 0;
  std::uint32_t value = 0;
  std::memcpy(&event, frames[0].data(), sizeof event);
  std::memcpy(&value, frames[0].data() + 2, sizeof value);
  return ConnectionEvent{kind_of(event), frames[1], detail_of(event, value)};
}

}  // namespace millrace::net
