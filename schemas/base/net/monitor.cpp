#include "schemas/base/net/monitor.hpp"

#include <cerrno>
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
  if (event == ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL) {
    if (value == ZMQ_PROTOCOL_ERROR_ZMTP_MECHANISM_MISMATCH) {
      return "one side uses keys and the other does not";
    }
    if (value == ZMQ_PROTOCOL_ERROR_ZMTP_CRYPTOGRAPHIC) {
      return "the messages do not fit the keys, or were sent before";
    }
    return "the peer speaks another protocol";
  }
  // A command that ends while it connects, for example, whatever its key.
  if (event == ZMQ_EVENT_HANDSHAKE_FAILED_NO_DETAIL && value == ECONNRESET) {
    return "the peer reset the connection during the handshake";
  }
  if (event == ZMQ_EVENT_HANDSHAKE_FAILED_NO_DETAIL) {
    return std::string("the peer left during it, perhaps because it uses no key (") +
           zmq_strerror(static_cast<int>(value)) + ")";
  }
  return {};
}

}  // namespace

std::optional<Error> key_refusal(const ConnectionEvent& event) {
  if (event.kind != ConnectionEvent::Kind::handshake_failed) return std::nullopt;
  if (event.key_refused) {
    return Error{Code::unauthorized, "the broker at " + event.endpoint + " refused the key",
                 "ask its administrator to allow the key's public half (`millrace keys allow`)"};
  }
  if (!event.keys_mismatch) return std::nullopt;
  return Error{Code::unauthorized,
               "the broker at " + event.endpoint +
                   " and this side do not agree on keys: one uses them and the other does not",
               "give --key FILE for a broker with keys, and none for one without"};
}

void Monitor::Release::operator()(void* socket) const {
  zmq_socket_monitor(socket, nullptr, 0);
}

Result<Monitor> Monitor::watch(Context& context, Socket& socket, Events which) {
  const std::string endpoint = "inproc://monitor-" + random_id();
  constexpr int failed = ZMQ_EVENT_HANDSHAKE_FAILED_NO_DETAIL |
                         ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL | ZMQ_EVENT_HANDSHAKE_FAILED_AUTH;
  constexpr int all = ZMQ_EVENT_CONNECTED | ZMQ_EVENT_CONNECT_RETRIED | ZMQ_EVENT_ACCEPTED |
                      ZMQ_EVENT_HANDSHAKE_SUCCEEDED | ZMQ_EVENT_DISCONNECTED | failed;
  const int events = which == Events::all ? all : failed;
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
  const bool mismatch = event == ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL &&
                        value == ZMQ_PROTOCOL_ERROR_ZMTP_MECHANISM_MISMATCH;
  return ConnectionEvent{kind_of(event), frames[1], detail_of(event, value),
                         event == ZMQ_EVENT_HANDSHAKE_FAILED_AUTH, mismatch};
}

}  // namespace millrace::net
