#include "schemas/base/net/socket.hpp"

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>
#include <zmq.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <new>
#include <string_view>
#include <utility>

namespace millrace::net {
namespace {

constexpr std::array types = {ZMQ_ROUTER, ZMQ_DEALER, ZMQ_PUB, ZMQ_SUB,
                              ZMQ_PUSH,   ZMQ_PULL,   ZMQ_PAIR};

std::unexpected<Error> failure(const std::string& what) {
  const int error = zmq_errno();
  const std::string message = what + ": " + zmq_strerror(error);
  switch (error) {
    case EAGAIN:
      return fail(Code::overloaded, message, "keep the message and send it again later");
    case EHOSTUNREACH:
      return fail(Code::unreachable, message, "the peer is gone; wait until it says hello again");
    case EINVAL:
    case EPROTONOSUPPORT:
      return fail(Code::usage, message, "use tcp://HOST:PORT or ipc://PATH");
    case EADDRINUSE:
      return fail(Code::io_error, message,
                  "another process listens there: stop it, or choose another endpoint");
    case EADDRNOTAVAIL:
    case ENODEV:
      return fail(Code::usage, message, "give an address of this machine");
    default:
      return fail(Code::io_error, message);
  }
}

// libzmq removes a socket file that is there before it listens, also one that another process
// listens on, which would then lose its peers without a word.
bool somebody_listens(std::string_view endpoint) {
  constexpr std::string_view scheme = "ipc://";
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (!endpoint.starts_with(scheme)) return false;
  endpoint.remove_prefix(scheme.size());
  if (endpoint.empty() || endpoint.size() >= sizeof address.sun_path) return false;
  std::ranges::copy(endpoint, address.sun_path);
  const int probe = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (probe < 0) return false;
  const int rc = ::connect(probe, reinterpret_cast<const sockaddr*>(&address), sizeof address);
  const bool busy = rc == 0 || errno == EAGAIN;  // EAGAIN: its queue is full
  ::close(probe);
  return busy;
}

Status set_number(void* handle, int option, std::int64_t value) {
  int rc = 0;
  if (option == ZMQ_MAXMSGSIZE) {
    rc = zmq_setsockopt(handle, option, &value, sizeof value);
  } else {
    const int narrow = static_cast<int>(value);
    rc = zmq_setsockopt(handle, option, &narrow, sizeof narrow);
  }
  if (rc != 0) return failure("cannot set socket option " + std::to_string(option));
  return {};
}

Status configure(void* handle, Kind kind, const SocketOptions& options) {
  const auto set = [&](int option, std::int64_t value) {
    return set_number(handle, option, value);
  };
  MILLRACE_TRY(set(ZMQ_LINGER, options.linger_ms));
  MILLRACE_TRY(set(ZMQ_SNDHWM, options.send_queue));
  MILLRACE_TRY(set(ZMQ_RCVHWM, options.receive_queue));
  MILLRACE_TRY(set(ZMQ_MAXMSGSIZE, options.message_bytes));
  MILLRACE_TRY(set(ZMQ_HEARTBEAT_IVL, options.heartbeat_ms));
  MILLRACE_TRY(set(ZMQ_HEARTBEAT_TIMEOUT, options.heartbeat_timeout_ms));
  MILLRACE_TRY(set(ZMQ_HEARTBEAT_TTL, options.heartbeat_timeout_ms));
  MILLRACE_TRY(set(ZMQ_HANDSHAKE_IVL, options.handshake_ms));
  MILLRACE_TRY(set(ZMQ_RECONNECT_IVL, options.reconnect_ms));
  MILLRACE_TRY(set(ZMQ_RECONNECT_IVL_MAX, options.reconnect_most_ms));
  if (kind == Kind::router) MILLRACE_TRY(set(ZMQ_ROUTER_MANDATORY, 1));
  if (kind == Kind::dealer || kind == Kind::push) {
    MILLRACE_TRY(set(ZMQ_IMMEDIATE, options.immediate ? 1 : 0));
  }
  return {};
}

// One part of a message being received; released whatever happens.
class Part {
 public:
  Part() { zmq_msg_init(&message_); }
  ~Part() { zmq_msg_close(&message_); }
  Part(const Part&) = delete;
  Part& operator=(const Part&) = delete;
  bool receive(void* socket) {
    int rc = -1;
    do {
      rc = zmq_msg_recv(&message_, socket, ZMQ_DONTWAIT);
    } while (rc < 0 && zmq_errno() == EINTR);
    return rc >= 0;
  }
  bool more() { return zmq_msg_more(&message_) != 0; }
  std::string text() {
    return {static_cast<const char*>(zmq_msg_data(&message_)), zmq_msg_size(&message_)};
  }
  std::string user() {
    const char* const name = zmq_msg_gets(&message_, "User-Id");
    return name == nullptr ? std::string() : std::string(name);
  }

 private:
  zmq_msg_t message_;
};

}  // namespace

Context::Context(int io_threads) : handle_(zmq_ctx_new()) {
  if (handle_ == nullptr) throw std::bad_alloc();
  zmq_ctx_set(handle_, ZMQ_IO_THREADS, std::max(io_threads, 1));
  zmq_ctx_set(handle_, ZMQ_MAX_SOCKETS, static_cast<int>(limits::sessions));
}
Context::~Context() {
  while (zmq_ctx_term(handle_) != 0 && zmq_errno() == EINTR) {
  }
}

Result<Socket> Socket::open(Context& context, Kind kind, const SocketOptions& options) {
  void* const handle = zmq_socket(context.handle(), types[static_cast<std::size_t>(kind)]);
  if (handle == nullptr) return failure("cannot make a socket");
  Socket socket(handle, kind);
  MILLRACE_TRY(configure(handle, kind, options));
  if (!options.routing_id.empty()) {
    MILLRACE_TRY(socket.set_text(ZMQ_ROUTING_ID, options.routing_id));
  }
  return socket;
}

Socket::Socket(Socket&& other) noexcept
    : handle_(std::exchange(other.handle_, nullptr)), kind_(other.kind_), owner_(other.owner_) {}
Socket& Socket::operator=(Socket&& other) noexcept {
  if (this != &other) {
    close();
    handle_ = std::exchange(other.handle_, nullptr);
    kind_ = other.kind_;
    owner_ = other.owner_;
  }
  return *this;
}
Socket::~Socket() {
  close();
}
void Socket::close() {
  if (handle_ != nullptr) zmq_close(std::exchange(handle_, nullptr));
}

Status Socket::set_text(int option, std::string_view value) {
  if (zmq_setsockopt(handle_, option, value.data(), value.size()) == 0) return {};
  return failure("cannot set socket option " + std::to_string(option));
}

Status Socket::bind(const std::string& endpoint) {
  if (somebody_listens(endpoint)) {
    errno = EADDRINUSE;
    return failure("cannot bind " + endpoint);
  }
  if (zmq_bind(handle_, endpoint.c_str()) == 0) return {};
  return failure("cannot bind " + endpoint);
}
Status Socket::unbind(const std::string& endpoint) {
  if (zmq_unbind(handle_, endpoint.c_str()) == 0) return {};
  return failure("cannot unbind " + endpoint);
}
Status Socket::connect(const std::string& endpoint) {
  if (zmq_connect(handle_, endpoint.c_str()) == 0) return {};
  return failure("cannot connect to " + endpoint);
}
Status Socket::disconnect(const std::string& endpoint) {
  if (zmq_disconnect(handle_, endpoint.c_str()) == 0) return {};
  return failure("cannot disconnect from " + endpoint);
}

Result<std::string> Socket::last_endpoint() const {
  std::array<char, 1024> text{};
  std::size_t size = text.size();
  if (zmq_getsockopt(handle_, ZMQ_LAST_ENDPOINT, text.data(), &size) != 0) {
    return failure("cannot read the endpoint");
  }
  return std::string(text.data());
}

Status Socket::subscribe(std::string_view prefix) {
  return set_text(ZMQ_SUBSCRIBE, prefix);
}
Status Socket::unsubscribe(std::string_view prefix) {
  return set_text(ZMQ_UNSUBSCRIBE, prefix);
}

Status Socket::check_owner() {
  const std::thread::id self = std::this_thread::get_id();
  if (owner_ == std::thread::id()) owner_ = self;
  if (owner_ == self) return {};
  return fail(Code::internal, "a socket was used by a thread that does not own it");
}

Status Socket::send_part(std::string_view frame, bool more) {
  const int flags = ZMQ_DONTWAIT | (more ? ZMQ_SNDMORE : 0);
  int rc = -1;
  do {
    rc = zmq_send(handle_, frame.data(), frame.size(), flags);
  } while (rc < 0 && zmq_errno() == EINTR);
  if (rc < 0) return failure("cannot send");
  return {};
}

// Only the first frame can be refused: then nothing was taken. Later ones follow it to its peer.
Status Socket::send(const Frames& frames) {
  MILLRACE_TRY(check_owner());
  if (frames.empty()) return fail(Code::internal, "a message without frames");
  for (std::size_t i = 0; i < frames.size(); ++i) {
    MILLRACE_TRY(send_part(frames[i], i + 1 < frames.size()));
  }
  return {};
}
Status Socket::send_frame(std::string_view frame) {
  MILLRACE_TRY(check_owner());
  return send_part(frame, false);
}

Result<std::optional<Received>> Socket::receive() {
  MILLRACE_TRY(check_owner());
  Received received;
  std::size_t parts = 0;
  bool more = true;
  while (more) {
    Part part;
    if (!part.receive(handle_)) {
      if (zmq_errno() == EAGAIN && parts == 0) return std::optional<Received>();
      return failure("cannot receive");
    }
    more = part.more();
    if (++parts > frames_most) continue;  // dropped, but read to its end
    received.frames.push_back(part.text());
    if (!more) received.user = part.user();
  }
  if (parts > frames_most) {
    return fail(Code::too_large, "a message of " + std::to_string(parts) + " frames was dropped; " +
                                     "the limit is " + std::to_string(frames_most));
  }
  return received;
}

bool is_loopback(std::string_view endpoint) {
  if (endpoint.starts_with("ipc://") || endpoint.starts_with("inproc://")) return true;
  constexpr std::string_view tcp = "tcp://";
  if (!endpoint.starts_with(tcp)) return false;
  const std::string_view address = endpoint.substr(tcp.size());
  const std::string_view host = address.substr(0, address.rfind(':'));
  if (host == "localhost" || host == "[::1]" || host == "lo") return true;
  // 127.0.0.0/8, in numbers only: 127.example.org is some other machine.
  return host.starts_with("127.") && host.find_first_not_of("0123456789.") == host.npos;
}

}  // namespace millrace::net
