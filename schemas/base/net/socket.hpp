#pragma once
// A thin layer over cppzmq that never blocks and returns errors as values. Every socket has
// explicit high-water marks, a linger time and a largest message. TCP itself finds out that a
// peer's machine is gone. A ROUTER reports peers that are gone instead of dropping messages to
// them.
//
// No socket sends ZMTP heartbeats: libzmq 4.3.4 aborts the process where a heartbeat is due, or one
// that was received is read, after the peer has gone from a connection whose messages wait for room
// in the queue.
//
// Errors of send: `unreachable` (a ROUTER knows no such peer; EHOSTUNREACH) and `overloaded` (the
// queue is full, or there is no peer yet; EAGAIN). After both, no part of the message was accepted,
// and the caller keeps it. Other errors: io_error with libzmq's reason, usage for invalid
// endpoints.
//
// An accepted message may still be lost with its connection, so the protocol above acknowledges
// everything that matters. Thread safety: threads may share a Context; a Socket belongs to one
// thread from its first send or receive on, which is checked (internal), until hand_over().
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "schemas/base/error.hpp"
#include "schemas/base/limits.hpp"

namespace zmq {
class context_t;
class socket_t;
}  // namespace zmq

namespace millrace::net {

// Owns the I/O threads; throws if the machine has no memory or descriptors left. Its destructor
// waits until all its sockets are closed and their linger has passed, so destroy sockets first.
class Context {
 public:
  explicit Context(int io_threads = 1);
  ~Context();
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;
  zmq::context_t& handle() const { return *handle_; }

 private:
  std::unique_ptr<zmq::context_t> handle_;
};

enum class Kind : std::uint8_t { router, dealer, pub, sub, push, pull, pair, rep, xpub };

// The keys of a CURVE connection, each as 40 characters of Z85. Every connection of the socket is
// then encrypted. Empty: plain connections.
struct CurveKeys {
  std::string public_key, secret_key;
  // Of a connecting socket: the public key of the other side. Empty: this socket binds, and asks
  // the ZAP handler of its context (inproc://zeromq.zap.01) about each peer. Without such a handler
  // nobody is admitted.
  std::string server_key;
  bool empty() const { return secret_key.empty(); }
};
inline constexpr const char* zap_endpoint = "inproc://zeromq.zap.01";
inline constexpr const char* zap_domain = "millrace";

struct SocketOptions {
  int linger_ms = 1'000;                            // time that queued messages may outlive close()
  int send_queue = limits::socket_high_water_mark;  // messages for each peer
  int receive_queue = limits::socket_high_water_mark;  // messages from each peer
  std::int64_t message_bytes = limits::frame_bytes;    // a larger message closes the connection
  // DEALER and PUSH: queue only for connected peers, so that nothing piles up for a dead one.
  bool immediate = true;
  int dead_peer_ms = 12'000;  // TCP: a machine that acknowledges nothing for so long is gone
  int handshake_ms = 10'000;
  int reconnect_ms = 100;  // doubles up to reconnect_most_ms
  int reconnect_most_ms = 5'000;
  std::string routing_id = {};  // DEALER: empty lets the ROUTER choose one for this connection
  CurveKeys curve = {};
};

// A message of one or more frames. On a ROUTER the first frame is the peer's routing id.
using Frames = std::vector<std::string>;
inline constexpr std::size_t frames_most = 8;

// What the connection of a message is known by.
struct Sender {
  std::string user;          // the User-Id that the ZAP handler gave; empty: there are no keys
  bool chose_route = false;  // the peer announced a routing id of its own
};

class Socket {
 public:
  static Result<Socket> open(Context& context, Kind kind, const SocketOptions& options = {});
  Socket(Socket&& other) noexcept;
  Socket& operator=(Socket&& other) noexcept;
  ~Socket();

  // tcp://127.0.0.1:5555, tcp://127.0.0.1:* (a free port), ipc://PATH, inproc://NAME
  Status bind(const std::string& endpoint);
  Status unbind(const std::string& endpoint);
  Status connect(const std::string& endpoint);  // reconnects by itself after a loss
  Result<std::string> last_endpoint() const;    // of the last bind, with its actual port
  Status subscribe(std::string_view prefix);    // SUB; XPUB: the last peer that was received from
  Status unsubscribe(std::string_view prefix);

  Status send(std::initializer_list<std::string_view> frames);
  Status send_frame(std::string_view frame);  // a message of one frame
  // None: nothing has arrived. Error too_large: a message with more than frames_most frames was
  // dropped.
  Result<std::optional<Frames>> receive(Sender* sender = nullptr);

  void hand_over() { owner_ = {}; }  // the next thread that uses it owns it; synchronize outside
  zmq::socket_t& handle() const { return *handle_; }

 private:
  explicit Socket(std::unique_ptr<zmq::socket_t> handle);
  Status check_owner();
  Status send_part(std::string_view frame, bool more);

  std::unique_ptr<zmq::socket_t> handle_;
  std::thread::id owner_;
};

// Refuses endpoints that connect() would refuse for how they are written, several with commas:
// before a slow start, or before they are stored for later. Errors: usage.
Status check_endpoints(std::string_view endpoints);

std::string library_version();  // of libzmq: "4.3.4"
bool has_curve();

// True for ipc, inproc, and tcp on the loopback interface: endpoints that need no keys.
bool is_loopback(std::string_view endpoint);

}  // namespace millrace::net
