#include "schemas/base/net/socket.hpp"

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <string_view>
#include <utility>
#include <zmq.hpp>

#include "schemas/base/net/endpoint_list.hpp"

namespace millrace::net {
namespace {

constexpr std::array types = {
    zmq::socket_type::router, zmq::socket_type::dealer, zmq::socket_type::pub,
    zmq::socket_type::sub,    zmq::socket_type::push,   zmq::socket_type::pull,
    zmq::socket_type::pair,   zmq::socket_type::rep,    zmq::socket_type::xpub};

std::unexpected<Error> failure(std::string_view what, int error) {
  const std::string message = std::string(what) + ": " + zmq_strerror(error);
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
    case EADDRNOTAVAIL:  // or not yet: the network of a machine that starts comes late
    case ENODEV:
      return fail(Code::io_error, message, "give an address of this machine that is up");
    default:
      return fail(Code::io_error, message);
  }
}

// libzmq cuts a port of more than 16 bits short: it would use another port without a word. 0 and *
// choose a free port where a socket listens.
Status check_port(std::string_view endpoint, bool listens) {
  constexpr std::string_view scheme = "tcp://";
  if (!endpoint.starts_with(scheme)) return {};
  const std::string_view address = endpoint.substr(scheme.size());
  const std::size_t colon = address.rfind(':');
  const std::string_view port = colon == address.npos ? "" : address.substr(colon + 1);
  if (listens && port == "*") return {};
  unsigned number = 0;
  const auto [end, wrong] = std::from_chars(port.data(), port.data() + port.size(), number);
  const bool whole = wrong == std::errc() && end == port.data() + port.size();
  if (whole && number <= 65'535 && (listens || number > 0)) return {};
  return fail(Code::usage,
              "the endpoint " + std::string(endpoint) + " has the port '" + std::string(port) +
                  "'; a port is a number from " + (listens ? "0" : "1") + " to 65535",
              listens ? "use tcp://HOST:PORT, with * in place of PORT for any free one"
                      : "use tcp://HOST:PORT");
}

// Before it listens, libzmq removes an existing socket file, even one that another process listens
// on. That process would then lose its peers without notice.
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

// Turns an exception of cppzmq into an error value.
template <class Call>
Status attempt(std::string_view what, Call call) {
  try {
    call();
    return {};
  } catch (const zmq::error_t& error) {
    return failure(what, error.num());
  }
}

// Repeats a call that a signal interrupted.
template <class Call>
auto uninterrupted(Call call) {
  while (true) {
    try {
      return call();
    } catch (const zmq::error_t& error) {
      if (error.num() != EINTR) throw;
    }
  }
}

// ZAP_ENFORCE_DOMAIN: without a ZAP handler nobody is admitted. Debian's header names the option
// only among the drafts; its library has it.
constexpr int zap_enforce_domain = 93;

void configure_curve(zmq::socket_t& socket, const CurveKeys& keys) {
  namespace option = zmq::sockopt;
  if (!keys.server_key.empty()) {
    socket.set(option::curve_serverkey, keys.server_key);
    socket.set(option::curve_publickey, keys.public_key);
    socket.set(option::curve_secretkey, keys.secret_key);
    return;
  }
  socket.set(option::curve_server, true);
  socket.set(option::curve_secretkey, keys.secret_key);
  socket.set(option::zap_domain, zap_domain);
  const int on = 1;
  if (zmq_setsockopt(socket.handle(), zap_enforce_domain, &on, sizeof on) != 0) {
    throw zmq::error_t();
  }
}

// Probes while nothing is sent, and a limit for what is sent and not acknowledged.
void watch_peers(zmq::socket_t& socket, int dead_peer_ms) {
  namespace option = zmq::sockopt;
  constexpr int ms_per_s = 1000, probes = 3;
  const int part_s = std::max(1, dead_peer_ms / ms_per_s / (probes + 1));
  socket.set(option::tcp_keepalive, 1);
  socket.set(option::tcp_keepalive_idle, part_s);
  socket.set(option::tcp_keepalive_intvl, part_s);
  socket.set(option::tcp_keepalive_cnt, probes);
  socket.set(option::tcp_maxrt, dead_peer_ms);
}

void configure(zmq::socket_t& socket, Kind kind, const SocketOptions& options) {
  namespace option = zmq::sockopt;
  socket.set(option::linger, options.linger_ms);
  socket.set(option::sndhwm, options.send_queue);
  socket.set(option::rcvhwm, options.receive_queue);
  socket.set(option::maxmsgsize, options.message_bytes);
  watch_peers(socket, options.dead_peer_ms);
  socket.set(option::handshake_ivl, options.handshake_ms);
  socket.set(option::reconnect_ivl, options.reconnect_ms);
  socket.set(option::reconnect_ivl_max, options.reconnect_most_ms);
  if (kind == Kind::router) socket.set(option::router_mandatory, true);
  if (kind == Kind::dealer || kind == Kind::push) socket.set(option::immediate, options.immediate);
  if (!options.routing_id.empty()) socket.set(option::routing_id, options.routing_id);
  if (kind == Kind::xpub) socket.set(option::xpub_manual, 1);
  if (!options.curve.empty()) configure_curve(socket, options.curve);
}

const char* property(zmq::message_t& message, const char* name) {
  return zmq_msg_gets(message.handle(), name);  // cppzmq throws where the property is absent
}

void read_sender(zmq::message_t& message, Sender& sender) {
  const char* user = property(message, "User-Id");
  sender.user = user == nullptr ? "" : user;
  const char* route = property(message, "Identity");  // the name that libzmq stores it under
  sender.chose_route = route != nullptr && *route != '\0';
}

}  // namespace

Context::Context(int io_threads)
    : handle_(std::make_unique<zmq::context_t>(std::max(io_threads, 1),
                                               static_cast<int>(limits::sessions))) {}
Context::~Context() = default;

Result<Socket> Socket::open(Context& context, Kind kind, const SocketOptions& options) {
  std::unique_ptr<zmq::socket_t> handle;
  MILLRACE_TRY(attempt("cannot make a socket", [&] {
    handle = std::make_unique<zmq::socket_t>(context.handle(), types[static_cast<int>(kind)]);
    configure(*handle, kind, options);
  }));
  return Socket(std::move(handle));
}

Socket::Socket(std::unique_ptr<zmq::socket_t> handle) : handle_(std::move(handle)) {}
Socket::Socket(Socket&& other) noexcept = default;
Socket& Socket::operator=(Socket&& other) noexcept = default;
Socket::~Socket() = default;

Status Socket::bind(const std::string& endpoint) {
  const std::string what = "cannot bind " + endpoint;
  MILLRACE_TRY(check_port(endpoint, true));
  if (somebody_listens(endpoint)) return failure(what, EADDRINUSE);
  return attempt(what, [&] { handle_->bind(endpoint); });
}
Status Socket::unbind(const std::string& endpoint) {
  return attempt("cannot unbind " + endpoint, [&] { handle_->unbind(endpoint); });
}
Status Socket::connect(const std::string& endpoint) {
  MILLRACE_TRY(check_port(endpoint, false));
  return attempt("cannot connect to " + endpoint, [&] { handle_->connect(endpoint); });
}

Status check_endpoints(std::string_view endpoints) {
  const EndpointList list(endpoints);
  for (const std::string& endpoint : list.all()) {
    if (!begins_endpoint(endpoint)) {
      return fail(Code::usage, "\"" + endpoint + "\" is not an endpoint",
                  "write tcp://HOST:PORT or ipc:///PATH");
    }
    MILLRACE_TRY(check_port(endpoint, false));
  }
  return {};
}

Result<std::string> Socket::last_endpoint() const {
  std::string endpoint;
  MILLRACE_TRY(attempt("cannot read the endpoint",
                       [&] { endpoint = handle_->get(zmq::sockopt::last_endpoint); }));
  return endpoint;
}

Status Socket::subscribe(std::string_view prefix) {
  return attempt("cannot subscribe", [&] { handle_->set(zmq::sockopt::subscribe, prefix); });
}
Status Socket::unsubscribe(std::string_view prefix) {
  return attempt("cannot unsubscribe", [&] { handle_->set(zmq::sockopt::unsubscribe, prefix); });
}

Status Socket::check_owner() {
  const std::thread::id self = std::this_thread::get_id();
  if (owner_ == std::thread::id()) owner_ = self;
  if (owner_ == self) return {};
  return fail(Code::internal, "a socket was used by a thread that does not own it");
}

Status Socket::send_part(std::string_view frame, bool more) {
  constexpr std::string_view what = "cannot send";
  auto flags = zmq::send_flags::dontwait;
  if (more) flags = flags | zmq::send_flags::sndmore;
  bool taken = false;
  MILLRACE_TRY(attempt(what, [&] {
    taken = uninterrupted([&] { return handle_->send(zmq::buffer(frame), flags); }).has_value();
  }));
  if (!taken) return failure(what, EAGAIN);
  return {};
}

// Only the first frame can be refused; nothing was accepted then. Later frames follow it to its
// peer.
Status Socket::send(std::initializer_list<std::string_view> frames) {
  MILLRACE_TRY(check_owner());
  if (frames.size() == 0) return fail(Code::internal, "a message has no frames");
  for (const std::string_view& frame : frames) {
    MILLRACE_TRY(send_part(frame, &frame + 1 != frames.end()));
  }
  return {};
}
Status Socket::send_frame(std::string_view frame) {
  MILLRACE_TRY(check_owner());
  return send_part(frame, false);
}

Result<std::optional<Frames>> Socket::receive(Sender* sender) {
  MILLRACE_TRY(check_owner());
  Frames frames;
  std::size_t parts = 0;
  bool arrived = true;
  MILLRACE_TRY(attempt("cannot receive", [&] {
    zmq::message_t part;
    do {
      const auto flags = zmq::recv_flags::dontwait;
      arrived = uninterrupted([&] { return handle_->recv(part, flags); }).has_value();
      if (!arrived) break;
      if (++parts <= frames_most) frames.push_back(part.to_string());  // others are only read
      if (sender != nullptr) read_sender(part, *sender);
    } while (part.more());
  }));
  if (!arrived && parts == 0) return std::optional<Frames>();
  if (!arrived) return failure("cannot receive the rest of a message", EAGAIN);
  if (parts > frames_most) {
    return fail(Code::too_large, "a message of " + std::to_string(parts) + " frames was dropped; " +
                                     "the limit is " + std::to_string(frames_most));
  }
  return frames;
}

std::string library_version() {
  const auto [major, minor, patch] = zmq::version();
  return std::to_string(major) + "." + std::to_string(minor) + "." + std::to_string(patch);
}
bool has_curve() {
  return zmq_has("curve") == 1;
}

bool is_loopback(std::string_view endpoint) {
  if (endpoint.starts_with("ipc://") || endpoint.starts_with("inproc://")) return true;
  constexpr std::string_view tcp = "tcp://";
  if (!endpoint.starts_with(tcp)) return false;
  const std::string_view address = endpoint.substr(tcp.size());
  const std::string_view host = address.substr(0, address.rfind(':'));
  if (host == "localhost" || host == "[::1]" || host == "lo") return true;
  // 127.0.0.0/8, in digits only: 127.example.org is another machine.
  return host.starts_with("127.") && host.find_first_not_of("0123456789.") == host.npos;
}

}  // namespace millrace::net
