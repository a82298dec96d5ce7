#pragma once
// Carries a Session over a socket: one DEALER to the broker's engine endpoint, which reconnects by
// itself. Of several brokers on one ledger it uses one at a time; when that is away it turns to the
// next one, and the engine takes its leases along. Errors of open: those of the endpoint and the
// socket. Errors of run: those of the socket, and the session's outcome. Thread safety: one thread
// creates and runs it; stop() may be called anywhere, signal handlers included.
#include <atomic>
#include <cstddef>
#include <memory>
#include <optional>
#include <string>

#include "engine/worker/session.hpp"
#include "schemas/base/net/endpoint_list.hpp"
#include "schemas/base/net/monitor.hpp"
#include "schemas/base/net/poller.hpp"
#include "schemas/base/net/socket.hpp"

namespace millrace::worker {

class Link {
 public:
  // `broker` is one endpoint or several, see EndpointList. `keys` empty: plain connections.
  static Result<std::unique_ptr<Link>> open(net::Context& context, const std::string& broker,
                                            const net::CurveKeys& keys, SessionOptions options,
                                            Executor& executor, const Clock& clock);
  ~Link();
  Link(const Link&) = delete;
  Link& operator=(const Link&) = delete;

  // Runs until the session is over: drained, refused for good, or the executor failed.
  Status run();
  // The first call drains, the second one leaves at once.
  void stop() noexcept;

 private:
  Link(net::Context& context, const std::string& brokers, net::CurveKeys keys,
       std::unique_ptr<net::Waker> waker, SessionOptions options, Executor& executor,
       const Clock& clock);
  Status connect();      // to the broker that is next
  void watch();          // the connection
  Result<bool> flush();  // true: the socket is full, and frames remain
  Status receive();

  Executor& executor_;
  const Clock& clock_;
  Status check_refusal();  // an error when the broker refused the key

  struct Connection {
    net::Socket socket;
    net::Monitor monitor;  // of the socket
  };
  net::Context& context_;
  net::EndpointList brokers_;
  const net::CurveKeys keys_;
  std::optional<Connection> connection_;
  std::unique_ptr<net::Waker> waker_;
  std::optional<net::Poller> poller_;
  std::size_t socket_place_ = 0, waker_place_ = 0;  // in the poller
  Session session_;
  std::atomic<int> stops_{0};
};

}  // namespace millrace::worker
